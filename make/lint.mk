# `make lint`: format, the project's own rules (tests/lint/rules.py), clang-tidy, scripts. Nothing is
# exempt and no warning is accepted. `make complexity` shows the longest files and functions.

C_FILES := $(sort $(wildcard $(foreach m,$(MODULES),$(DIR_$(m))/*.[ch])) $(wildcard cachefs/*.h cachefs/keeper/program/*.[ch] csi/program/*.c trainer/program/*.c trainer/*.cc operator/program/*.[ch] operator/barrier/*.c) \
                  $(wildcard tests/unit/*/*.[ch] tests/layers/*.[ch] tests/fuzz/*.c tests/tools/*.c tests/torture/*.[ch]))
JOBS    ?= $(shell nproc)

.PHONY: lint lint-format lint-rules lint-tidy format complexity
lint: lint-format lint-rules lint-tidy
	@echo "lint: clean"

lint-format:
	@echo "  LINT  format ($(words $(C_FILES)) files)"
	@clang-format --dry-run -Werror $(C_FILES)
format:
	@clang-format -i $(C_FILES)

lint-rules:
	@echo "  LINT  rules"
	@python3 tests/lint/rules.py $(foreach m,$(MODULES),$(m)=$(DIR_$(m))) keeper-program=cachefs/keeper/program csi-program=csi/program train-program=trainer/program operator-program=operator/program operator-barrier=operator/barrier
	@for script in .ci/run deploy/kubectl/kubectl-sampan $$(find tests deploy -name '*.sh' -not -path '*/.venv/*'); do bash -n "$$script"; done

# One stamp a file: a second lint looks only at what changed.
tidy_of = $(patsubst %.c,$(BUILD)/tidy/%.ok,$(call srcs_of,$(1)))
define tidy_rules
$(BUILD)/tidy/$(DIR_$(1))/%.ok: $(DIR_$(1))/%.c .clang-tidy $(wildcard $(DIR_$(1))/*.h) \
                                $(foreach u,$(USES_$(1)),$(wildcard $(DIR_$(u))/*.h))
	@mkdir -p $$(@D)
	@echo "  TIDY  $$<"
	@clang-tidy --quiet $$< -- $$(CFLAGS) $$(call inc_of,$(1)) $$(foreach u,$$(USES_$(1)),$$(call inc_of,$$(u))) \
	    $$(shell pkg-config --cflags $$(call pkgs_of,$(1) $$(USES_$(1)))) 2>$$@.err || { cat $$@.err; exit 1; }
	@touch $$@
endef
$(foreach m,$(MODULES),$(eval $(call tidy_rules,$(m))))
TIDY_STAMPS := $(foreach m,$(MODULES),$(call tidy_of,$(m))) \
               $(KEEPER_SRCS:%.c=$(BUILD)/tidy/%.ok) $(BARRIER_SRCS:%.c=$(BUILD)/tidy/%.ok) $(BUILD)/tidy/csi/program/main.ok $(BUILD)/tidy/trainer/program/main.ok \
               $(OPERATOR_SRCS:%.c=$(BUILD)/tidy/%.ok)
$(call tidy_of,csi) $(BUILD)/tidy/csi/program/main.ok: | $(BUILD)/gen/csi/csi.pb-c.h
$(BUILD)/tidy/operator/barrier/%.ok: operator/barrier/%.c .clang-tidy
	@mkdir -p $(@D)
	@echo "  TIDY  $<"
	@clang-tidy --quiet $< -- $(CFLAGS) 2>$@.err || { cat $@.err; exit 1; }
	@touch $@
# The keeper's program is no module: libc and two headers.
$(BUILD)/tidy/cachefs/keeper/program/%.ok: cachefs/keeper/program/%.c .clang-tidy \
                                           $(wildcard cachefs/keeper/*.h cachefs/keeper/program/*.h)
	@mkdir -p $(@D)
	@echo "  TIDY  $<"
	@clang-tidy --quiet $< -- $(CFLAGS) -Icachefs/keeper 2>$@.err || { cat $@.err; exit 1; }
	@touch $@
lint-tidy:
	@$(MAKE) --no-print-directory -j$(JOBS) $(TIDY_STAMPS)

complexity:
	@python3 tests/lint/rules.py --longest $(foreach m,$(MODULES),$(m)=$(DIR_$(m)))
