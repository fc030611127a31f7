# Unit tests: tests/unit/MODULE/*.c, one Criterion program a module, linked with that module and what
# it uses. `make unit` builds and runs all; `make unit-cache` one; private headers of the module are
# visible to its own tests only.

UNIT_MODULES := $(foreach m,$(MODULES),$(if $(wildcard tests/unit/$(m)/*.c),$(m)))

define unit_rules
$(BUILD)/obj/tests/unit/$(1)/%.o: tests/unit/$(1)/%.c Makefile make/unit.mk
	@mkdir -p $$(@D)
	@echo "  CC    $$<"
	@$$(CC) $$(filter-out -Wmissing-prototypes,$$(CFLAGS)) -Itests/unit -Itests/layers \
	    $$(call inc_of,$(1)) $$(foreach u,$$(USES_$(1)),$$(call inc_of,$$(u))) \
	    $$(shell pkg-config --cflags criterion $$(call pkgs_of,$(1) $$(USES_$(1)))) -MMD -MP -c -o $$@ $$<
-include $(patsubst %.c,$(BUILD)/obj/%.d,$(wildcard tests/unit/$(1)/*.c))
$(BUILD)/unit/$(1): $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/unit/$(1)/*.c)) \
                    $(call lib_of,$(1) $(USES_$(1)))
	@mkdir -p $$(@D)
	@$$(CC) $$(LDFLAGS) -o $$@ $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group \
	    $$(shell pkg-config --libs criterion $$(call pkgs_of,$(1) $$(USES_$(1)))) -lm
.PHONY: unit-$(1)
unit-$(1): $(BUILD)/unit/$(1)
	@$(BUILD)/unit/$(1) --timeout 120 -j 2
endef
$(foreach m,$(UNIT_MODULES),$(eval $(call unit_rules,$(m))))

.PHONY: unit
unit: $(foreach m,$(UNIT_MODULES),unit-$(m))
