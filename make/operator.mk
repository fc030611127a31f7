# The operator's program.
OPERATOR_MODULES := operator $(USES_operator)

$(BUILD)/obj/operator/program/%.o: operator/program/%.c Makefile
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS) -Ioperator/program $(foreach m,$(OPERATOR_MODULES),$(call inc_of,$(m))) \
	    $(shell pkg-config --cflags $(call pkgs_of,$(OPERATOR_MODULES))) -MMD -MP -c -o $@ $<
$(BUILD)/bin/sampan-operator: $(OPERATOR_SRCS:%.c=$(BUILD)/obj/%.o) $(call lib_of,$(OPERATOR_MODULES))
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(LDFLAGS) -o $@.new $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
	    $(shell pkg-config --libs $(call pkgs_of,$(OPERATOR_MODULES))) -lm
	@mv -f $@.new $@
-include $(OPERATOR_SRCS:%.c=$(BUILD)/obj/%.d)

$(BUILD)/tidy/operator/program/%.ok: operator/program/%.c .clang-tidy \
                                     $(foreach m,$(OPERATOR_MODULES),$(wildcard $(DIR_$(m))/*.h))
	@mkdir -p $(@D)
	@echo "  TIDY  $<"
	@clang-tidy --quiet $< -- $(CFLAGS) -Ioperator/program $(foreach m,$(OPERATOR_MODULES),$(call inc_of,$(m))) \
	    $(shell pkg-config --cflags $(call pkgs_of,$(OPERATOR_MODULES))) 2>$@.err || { cat $@.err; exit 1; }
	@touch $@

# The same program around a controller for tests.
$(BUILD)/obj/tests/tools/operator-toy.o: tests/tools/operator-toy.c Makefile
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS) -Ioperator/program $(foreach m,$(OPERATOR_MODULES),$(call inc_of,$(m))) \
	    $(shell pkg-config --cflags $(call pkgs_of,$(OPERATOR_MODULES))) -MMD -MP -c -o $@ $<
$(BUILD)/tools/operator-toy: $(BUILD)/obj/operator/program/main.o $(BUILD)/obj/operator/program/key.o \
                             $(BUILD)/obj/tests/tools/operator-toy.o $(call lib_of,$(OPERATOR_MODULES))
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
	    $(shell pkg-config --libs $(call pkgs_of,$(OPERATOR_MODULES))) -lm
-include $(BUILD)/obj/tests/tools/operator-toy.d
