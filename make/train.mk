# The trainer: its program, loops on several threads, and the one file of C++ (Gloo has no other
# interface).

# gcc knows OpenMP by itself; where another compiler builds, the loops run on one thread.
FLAGS_train := $(if $(findstring clang,$(CC)),-Wno-source-uses-openmp,-fopenmp) -O3
CXX_train   := $(if $(findstring clang,$(CC)),clang++,c++)
CXXFLAGS_train := $(filter-out -std=gnu17 -Wstrict-prototypes -Wmissing-prototypes -include common/base/banned.h,$(CFLAGS)) -std=c++17

$(BUILD)/obj/trainer/%.o: trainer/%.cc Makefile make/train.mk
	@mkdir -p $(@D)
	@echo "  CXX   $<"
	@$(CXX_train) $(CXXFLAGS_train) -MMD -MP -c -o $@ $<
$(BUILD)/lib/libtrain.a: $(BUILD)/obj/trainer/coll-gloo.o
-include $(BUILD)/obj/trainer/coll-gloo.d

TRAIN_MODULES := train $(USES_train) launch kube predict curves pages
# Its main() knows the launcher, too.
$(BUILD)/obj/trainer/program/%.o: trainer/program/%.c Makefile make/train.mk
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS) $(foreach m,$(TRAIN_MODULES),$(call inc_of,$(m))) \
	    $(shell pkg-config --cflags $(call pkgs_of,$(TRAIN_MODULES))) -MMD -MP -c -o $@ $<
$(BUILD)/tidy/trainer/program/%.ok: trainer/program/%.c .clang-tidy $(wildcard trainer/*.h trainer/launch/*.h trainer/predict/*.h trainer/curves/*.h)
	@mkdir -p $(@D)
	@echo "  TIDY  $<"
	@clang-tidy --quiet $< -- $(CFLAGS) $(foreach m,$(TRAIN_MODULES),$(call inc_of,$(m))) \
	    $(shell pkg-config --cflags $(call pkgs_of,$(TRAIN_MODULES))) 2>$@.err || { cat $@.err; exit 1; }
	@touch $@
$(BUILD)/bin/sampan-train: $(BUILD)/obj/trainer/program/main.o $(call lib_of,$(TRAIN_MODULES))
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(LDFLAGS) -o $@.new $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
	    $(shell pkg-config --libs $(call pkgs_of,$(TRAIN_MODULES))) $(call ldlibs_of,$(TRAIN_MODULES))
	@mv -f $@.new $@
-include $(BUILD)/obj/trainer/program/main.d
# The page of curves is part of the program.
$(BUILD)/obj/trainer/curves/page.o: $(wildcard trainer/curves/page/*)
