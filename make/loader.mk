# libsampan-loader.so: the loader for other programs and for Python (trainer/loader/loader.h), with what it
# needs of common/ inside. Only the names of its header and of err.h are seen. `make install` puts it, both
# headers and sampan-loader.pc in place.

LOADER_SONAME  := libsampan-loader.so.0
LOADER_SO      := $(BUILD)/lib/$(LOADER_SONAME)
LOADER_HEADERS := trainer/loader/loader.h
LOADER_BASE    := buf clock crc dir err guard hash json json-write mem mountinfo sync
LOADER_SRCS    := $(foreach m,loader order walk ctlwire,$(call srcs_of,$(m))) $(LOADER_BASE:%=common/base/%.c)
LOADER_PIC     := $(LOADER_SRCS:%.c=$(BUILD)/pic/loader/%.o)
LOADER_LIBS    := jansson libjpeg libpng

# Loops over pixels: the optimiser makes vectors of them from here on.
$(BUILD)/obj/trainer/loader/resample.o $(BUILD)/pic/loader/trainer/loader/resample.o: override CFLAGS += -O3

$(BUILD)/pic/loader/%.o: %.c Makefile make/loader.mk
	@mkdir -p $(@D)
	@$(CC) $(filter-out -fPIE,$(CFLAGS)) -fPIC $(call inc_of,loader) $(foreach u,$(USES_loader),$(call inc_of,$(u))) \
	    $(shell pkg-config --cflags $(LOADER_LIBS)) -MMD -MP -c -o $@ $<
-include $(LOADER_PIC:%.o=%.d)

# Not unloaded by dlclose(): the process keeps its handler of SIGBUS (guard.h).
$(LOADER_SO): $(LOADER_PIC) trainer/loader/exports.map make/loader.mk
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) -shared $(filter-out -pie,$(LDFLAGS)) -Wl,-soname,$(LOADER_SONAME) -Wl,--no-undefined -Wl,-z,nodelete \
	    -Wl,--version-script,trainer/loader/exports.map -o $@ $(LOADER_PIC) \
	    $(shell pkg-config --libs $(LOADER_LIBS)) -lm

.PHONY: loader-lib loader-install
loader-lib: $(LOADER_SO)
all: $(LOADER_SO)
loader-install: $(LOADER_SO) err-header-install
	@$(INSTALL) -d $(LIBDIR)/pkgconfig $(INCDIR)
	@$(INSTALL) -m 0644 $(LOADER_SO) $(LIBDIR)/
	@ln -sfn $(LOADER_SONAME) $(LIBDIR)/libsampan-loader.so
	@$(INSTALL) -m 0644 $(LOADER_HEADERS) $(INCDIR)/
	@$(call pc_install,trainer/loader/sampan-loader.pc.in)

# Sets of pictures for tests and measurements.
$(BUILD)/tools/make-pictures: tests/tools/make-pictures.c tests/unit/loader/pictures.c tests/unit/loader/pictures.h Makefile
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(filter-out -include common/base/banned.h,$(CFLAGS)) -Itests/unit/loader $(LDFLAGS) -o $@ \
	    $(filter %.c,$^) $(shell pkg-config --cflags --libs libjpeg libpng)

$(BUILD)/tools/bench-loader: tests/bench/bench-loader.c $(LOADER_SO) make/loader.mk
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(filter-out -include common/base/banned.h,$(CFLAGS)) -Itrainer/loader -Icommon/base $(LDFLAGS) -o $@ $< \
	    $(LOADER_SO) -Wl,-rpath,'$$ORIGIN/../lib' $(shell pkg-config --cflags --libs libjpeg)
