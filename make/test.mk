# All tests: `make test` installs what is missing, builds, runs every unit program and every end-to-end
# script, and ends with one line of counts. `make func T='03 stale'` runs the scripts whose names hold
# one of these words; VARIANT=asan runs the same against build-asan/.

T       ?=
SLOW    ?=
LOADERS ?=
TEST_ENV = SAMPAN=$(call quoted,$(CURDIR)/$(BUILD)/bin/sampan) SAMPAN_BUILD=$(call quoted,$(CURDIR)/$(BUILD)) SLOW='$(SLOW)'

.PHONY: test test-run func unit-build
test: deps
	@$(MAKE) --no-print-directory venv
	@$(MAKE) --no-print-directory all unit-build tools
	@$(MAKE) --no-print-directory test-run
test-run:
	@$(TEST_ENV) tests/run --unit $(UNIT_MODULES:%=$(BUILD)/unit/%) --func $(T)
func: all tools
	@$(TEST_ENV) tests/run --func $(T)
unit-build: $(UNIT_MODULES:%=$(BUILD)/unit/%)

# Small C programs that tests and benchmarks run beside sampan: tests/tools/NAME.c -> build/tools/NAME.
TOOL_LIBS_json-field := -ljansson
TOOLS := $(patsubst tests/tools/%.c,$(BUILD)/tools/%,$(wildcard tests/tools/*.c))
.PHONY: tools
tools: $(TOOLS) $(BUILD)/tools/object-live
$(BUILD)/tools/object-live: tests/servers/object-live.c $(call lib_of,object base)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS) $(call inc_of,object) $(call inc_of,base) $(LDFLAGS) -o $@ $< -Wl,--start-group $(filter %.a,$^) \
	    -Wl,--end-group $(shell pkg-config --libs $(call pkgs_of,object base))
$(BUILD)/tools/%: tests/tools/%.c Makefile
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(filter-out -include common/base/banned.h,$(CFLAGS)) $(LDFLAGS) -o $@ $< $(TOOL_LIBS_$*)

# Suites from outside. Each part says what it skips and why. LOADERS=1: PyTorch and Paddle, too (3 GB).
# K='csi hdfs server fsx pjdfstest fio' runs these alone; FSX_OPS=1000000 runs fsx long.
.PHONY: conformance
conformance: deps all venv
	@$(TEST_ENV) LOADERS='$(LOADERS)' K='$(K)' tests/conformance/run

# `make demo` in a bare Debian 12, as a newcomer would.
.PHONY: bare
bare:
	@tests/bare/run
