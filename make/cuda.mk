# `make cuda`: what can be checked of the GPU backend on the machine that is here. Needs nothing but
# `make deps`; what it lacks is skipped, and it says so.
#
#   abi       our declarations against the vendor's headers    (wheels of PyPI, or CUDA_WHEELS=FOLDER)
#   kernels   machine code for sm_80 and sm_90 by the real NVRTC            (the same)
#   run       the same training on the CPU and on the GPU, then resnet50 on the GPU alone, in fp32
#             and bf16, and of pictures from a mount; beside PyTorch where python3 has it  (a GPU)
#
# The wheels go below build/ and are used for these checks alone.

CUDA_WHEELS ?= build/cuda-wheels

# The backend's text of kernels is part of an object file.
$(BUILD)/obj/trainer/cuda-kernels.o: $(wildcard trainer/kernels*.cu)
$(BUILD)/obj/trainer/cuda-lib.o: trainer/cuda-lib.def

$(BUILD)/tools/compile-kernels: tests/cuda/compile-kernels.c $(call lib_of,train base)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS) $(call inc_of,train) $(call inc_of,base) $(LDFLAGS) -o $@ $< -Wl,--start-group $(filter %.a,$^) \
	    -Wl,--end-group $(shell pkg-config --libs $(call pkgs_of,base))

# A stand-in for all of NVIDIA's libraries, which computes on the host (tests/cuda/fake/fake.h).
FAKE_CUDA      := $(BUILD)/lib/fake-cuda.so
FAKE_CUDA_OBJS := $(patsubst %.c,$(BUILD)/pic/%.o,$(wildcard tests/cuda/fake/*.c)) \
                  $(BUILD)/pic/gen/fake-fp32.o $(BUILD)/pic/gen/fake-bf16.o
FAKE_CFLAGS     = $(filter-out -fPIE -Wmissing-prototypes -D_FORTIFY_SOURCE=2 -include common/base/banned.h,$(CFLAGS)) -O2 -fPIC \
                  -Itests/cuda/fake -Itrainer -I.
KERNEL_TEXTS   := trainer/kernels.cu trainer/kernels-image.cu trainer/kernels-loss.cu
$(BUILD)/pic/tests/cuda/fake/%.o: tests/cuda/fake/%.c $(wildcard tests/cuda/fake/*.h) trainer/cuda-types.h make/cuda.mk
	@mkdir -p $(@D)
	@$(CC) $(FAKE_CFLAGS) -c -o $@ $<
$(BUILD)/gen/fake-%.c: tests/cuda/fake/trampolines.py $(KERNEL_TEXTS)
	@mkdir -p $(@D)
	@python3 $< $* $(KERNEL_TEXTS) >$@
$(BUILD)/pic/gen/fake-%.o: $(BUILD)/gen/fake-%.c $(KERNEL_TEXTS)
	@mkdir -p $(@D)
	@$(CC) $(FAKE_CFLAGS) -Wno-unused-variable -Wno-unused-function -c -o $@ $<
.SECONDARY: $(BUILD)/gen/fake-fp32.c $(BUILD)/gen/fake-bf16.c
$(FAKE_CUDA): $(FAKE_CUDA_OBJS)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) -shared $(filter-out -pie,$(LDFLAGS)) -o $@ $^ $(shell pkg-config --libs openblas) -lm
$(BUILD)/unit/train: | $(FAKE_CUDA)
tools: $(FAKE_CUDA)

.PHONY: cuda
cuda: $(BUILD)/bin/sampan-train $(BUILD)/tools/compile-kernels $(BUILD)/bin/sampan $(BUILD)/tools/make-pictures
	@tests/cuda/check.sh $(CUDA_WHEELS) $(BUILD)
