# `make cuda`: what can be checked of the GPU backend on the machine that is here. Needs nothing but
# `make deps`; what it lacks is skipped, and it says so.
#
#   abi       our declarations against the vendor's headers    (wheels of PyPI, or CUDA_WHEELS=FOLDER)
#   kernels   machine code for sm_80 and sm_90 by the real NVRTC            (the same)
#   run       training on the GPU beside PyTorch                            (a GPU)
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

.PHONY: cuda
cuda: $(BUILD)/bin/sampan-train $(BUILD)/tools/compile-kernels
	@tests/cuda/check.sh $(CUDA_WHEELS) $(BUILD)
