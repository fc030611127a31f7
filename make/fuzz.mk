# `make fuzz` builds each tests/fuzz/fuzz-NAME.c with libFuzzer, address and undefined-behaviour checks
# and runs it for FUZZ_SECONDS on its corpus (tests/fuzz/corpus/NAME, kept small and in the tree).
# A crash stays below build-fuzz/crash/ and fails the target.
#
# A fuzzer is linked with all modules, but for those that are programs apart and have names, or
# libraries, that the others do not: these have a row here.
FUZZ_sample-list := loader
FUZZ_rank-store  := train
FUZZ_ps-wire     := train
FUZZ_events      := curves
# Threads of the server may be about to end when an input does: leaks are looked for at the end alone.
FUZZ_FLAGS_guest-ops := -detect_leaks=0
FUZZ_FLAGS_http      := -detect_leaks=0
# An input that takes so long hangs, however busy the machine is.
FUZZ_HANG_S := 120

FUZZ_SECONDS ?= 5
FUZZERS      := $(patsubst tests/fuzz/fuzz-%.c,%,$(wildcard tests/fuzz/fuzz-*.c))

.PHONY: fuzz fuzz-run
fuzz:
	@$(MAKE) --no-print-directory VARIANT=fuzz CC=clang fuzz-run

ifeq ($(VARIANT),fuzz)
$(BUILD)/obj/tests/fuzz/%.o: tests/fuzz/%.c Makefile
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(filter-out -Wmissing-prototypes,$(CFLAGS)) $(foreach m,$(MODULES),$(call inc_of,$(m))) -Icachefs \
	    $(shell pkg-config --cflags $(call pkgs_of,$(MODULES))) -MMD -MP -c -o $@ $<
-include $(patsubst %,$(BUILD)/obj/tests/fuzz/fuzz-%.d,$(FUZZERS))
# Kept, so that only what changed is compiled again.
.SECONDARY: $(FUZZERS:%=$(BUILD)/obj/tests/fuzz/fuzz-%.o)
fuzz_uses = $(if $(FUZZ_$(1)),$(FUZZ_$(1)) $(USES_$(FUZZ_$(1))),$(filter-out cli train,$(MODULES)))
define fuzz_rule
$(BUILD)/fuzz/$(1): $(BUILD)/obj/tests/fuzz/fuzz-$(1).o $(call lib_of,$(call fuzz_uses,$(1)))
	@mkdir -p $$(@D)
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer,address,undefined -o $$@ $$< \
	    -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group \
	    $$(shell pkg-config --libs $(call pkgs_of,$(call fuzz_uses,$(1)))) $(call ldlibs_of,$(call fuzz_uses,$(1)))
endef
$(foreach f,$(FUZZERS),$(eval $(call fuzz_rule,$(f))))

.PHONY: $(FUZZERS:%=fuzz-run-%)
fuzz-run: $(FUZZERS:%=fuzz-run-%)
$(FUZZERS:%=fuzz-run-%): fuzz-run-%: $(BUILD)/fuzz/%
	@mkdir -p $(BUILD)/crash $(BUILD)/corpus/$*
	@$< -max_total_time=$(FUZZ_SECONDS) -timeout=$(FUZZ_HANG_S) -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 $(FUZZ_FLAGS_$*) \
	    -artifact_prefix=$(BUILD)/crash/$*- $(BUILD)/corpus/$* $(wildcard tests/fuzz/corpus/$*) \
	    >$(BUILD)/fuzz/$*.log 2>&1 || { tail -40 $(BUILD)/fuzz/$*.log; \
	    grep -aE '(ERROR|SUMMARY|Base64):|Test unit written' $(BUILD)/fuzz/$*.log; echo "fuzz: $* failed"; exit 1; }
	@echo "fuzz: $*, $$(awk '/number_of_executed_units/ {print $$2}' $(BUILD)/fuzz/$*.log) inputs"
endif
