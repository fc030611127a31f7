# Memory and thread checks: the unit tests (and the end-to-end scripts whose names hold a word of
# SHORT_FUNC) again, built with each checker.

SHORT_FUNC ?= read-all refresh estale sampler-order corruption disk-full umount-busy poisoned-request

.PHONY: asan tsan valgrind
asan:
	@$(MAKE) --no-print-directory VARIANT=asan all tools unit-build
	@$(MAKE) --no-print-directory VARIANT=asan T='$(SHORT_FUNC)' test-run

# Modules with threads of their own, but for the trainer, whose libraries the checker does not know.
TSAN_MODULES := $(filter base fetch cache transfer stage volume keeper fuse outfuse ctlserve jobs \
                         server csi loader kube operator,$(UNIT_MODULES))
tsan:
	@$(MAKE) --no-print-directory VARIANT=tsan $(TSAN_MODULES:%=build-tsan/unit/%)
	@SAMPAN_BUILD=build-tsan TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
	    tests/run --unit $(TSAN_MODULES:%=build-tsan/unit/%)

# Pure modules: valgrind finds reads of uninitialised bytes that address checks do not.
CFLAGS_valgrind  := -O1 -g
VALGRIND_MODULES := $(filter base order object ctlwire catalog,$(UNIT_MODULES))
valgrind:
	@$(MAKE) --no-print-directory VARIANT=valgrind $(VALGRIND_MODULES:%=build-valgrind/unit/%)
	@SAMPAN_UNIT_WRAP='valgrind -q --error-exitcode=97 --trace-children=yes' \
	    SAMPAN_BUILD=build-valgrind tests/run --unit $(VALGRIND_MODULES:%=build-valgrind/unit/%)
