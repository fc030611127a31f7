# Unit tests: tests/unit/MODULE/*.c, one Criterion program a module, linked with that module and what
# it uses. `make unit` builds and runs all; `make unit-cache` one; private headers of the module are
# visible to its own tests only.

UNIT_MODULES := $(foreach m,$(MODULES),$(if $(wildcard tests/unit/$(m)/*.c),$(m)))

# Criterion's shared arena lies where the thread sanitizer keeps its shadow, and its new process for
# each test is slow under valgrind, so these variants get the small runner of tests/unit/plain, which
# offers the same interface.
ifneq ($(filter tsan valgrind,$(VARIANT)),)
UNIT_INC    := -Itests/unit/plain
UNIT_PKGS   :=
UNIT_RUNNER := $(BUILD)/obj/tests/unit/plain/runner.o
$(UNIT_RUNNER): tests/unit/plain/runner.c tests/unit/plain/criterion/criterion.h Makefile
	@mkdir -p $(@D)
	@$(CC) $(filter-out -Wmissing-prototypes -Wformat%,$(CFLAGS)) $(UNIT_INC) -c -o $@ $<
else
UNIT_INC    :=
UNIT_PKGS   := criterion
UNIT_RUNNER :=
endif

define unit_rules
$(BUILD)/obj/tests/unit/$(1)/%.o: tests/unit/$(1)/%.c Makefile make/unit.mk
	@mkdir -p $$(@D)
	@echo "  CC    $$<"
	@$$(CC) $$(filter-out -Wmissing-prototypes,$$(CFLAGS)) $$(UNIT_INC) -Itests/unit -Itests/layers \
	    $$(call inc_of,$(1)) $$(foreach u,$$(USES_$(1)),$$(call inc_of,$$(u))) \
	    $$(shell pkg-config --cflags $$(UNIT_PKGS) $$(call pkgs_of,$(1) $$(USES_$(1)))) -MMD -MP -c -o $$@ $$<
-include $(patsubst %.c,$(BUILD)/obj/%.d,$(wildcard tests/unit/$(1)/*.c))
$(BUILD)/unit/$(1): $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/unit/$(1)/*.c)) \
                    $(UNIT_RUNNER) $(call lib_of,$(1) $(USES_$(1)) layers)
	@mkdir -p $$(@D)
	@$$(CC) $$(LDFLAGS) -o $$@ $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group \
	    $$(shell pkg-config --libs $$(UNIT_PKGS) $$(call pkgs_of,$(1) $$(USES_$(1)))) $$(call ldlibs_of,$(1) $$(USES_$(1))) -lm
.PHONY: unit-$(1)
unit-$(1): $(BUILD)/unit/$(1)
	@LSAN_OPTIONS=suppressions=tests/lsan.supp:print_suppressions=0 $(BUILD)/unit/$(1) --timeout 120 -j 2
endef
$(foreach m,$(UNIT_MODULES),$(eval $(call unit_rules,$(m))))

# The keeper's tests run the real program.
$(BUILD)/unit/keeper: | $(BUILD)/bin/sampan-keeper
# So do those of the barrier.
$(BUILD)/unit/operator: | $(BUILD)/bin/sampan-barrier

.PHONY: unit
unit: $(foreach m,$(UNIT_MODULES),unit-$(m))

# The definitions in deploy/crd, from the tables in common/api.
.PHONY: crd
crd: $(BUILD)/unit/api
	@SAMPAN_WRITE_CRD=1 $< --filter 'api/deploy_crd*'
