# Sampan. `make help` lists the targets; docs/architecture.md explains the modules.
#
# A module is a row: its folder, the modules it may include, the libraries it needs. The include path
# of a module's files holds nothing but itself and its USES, so an include against the ladder does not
# compile. make/*.mk hold the longer targets (tests, lint, install).

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
VERSION     := 0.1.0
# nginx and ldconfig are there, and not on the path of a plain user of Debian, nor of a root that su made.
export PATH := $(PATH):/usr/sbin:/sbin
# A path as one word of the shell, whatever is in it.
quoted       = '$(subst ','\'',$(1))'

# `layers` are sources for tests (faults, delays, counters). Only variants that define
# SAMPAN_TEST_LAYERS refer to them, so that a release links none of it.
MODULES := base order walk api ctlwire device object catalog layers warmup cache fetch transfer stage volume keeper fuse outfuse ctlserve jobs server cli pages csi loader kube operator train launch predict curves
# Modules that are programs of their own: nothing of them is in build/bin/sampan.
APART := api csi loader kube operator train launch predict curves

DIR_base     := common/base
DIR_order    := common/order
DIR_walk     := common/walk
DIR_api      := common/api
DIR_ctlwire  := common/control
DIR_device   := cachefs/device
DIR_object   := cachefs/object
DIR_catalog  := cachefs/catalog
DIR_layers   := tests/layers
DIR_warmup   := warmup
DIR_cache    := cachefs/cache
DIR_fetch    := cachefs/fetch
DIR_transfer := cachefs/transfer
DIR_stage    := cachefs/stage
DIR_volume   := cachefs/volume
DIR_keeper   := cachefs/keeper
DIR_outfuse  := cachefs/outfuse
DIR_fuse     := cachefs/fuse
DIR_ctlserve := cachefs/control
DIR_jobs     := runtime-server/jobs
DIR_server   := runtime-server
DIR_cli      := cli
DIR_pages    := common/pages
DIR_csi      := csi
DIR_loader   := trainer/loader
DIR_train    := trainer
DIR_launch   := trainer/launch
DIR_predict  := trainer/predict
DIR_curves   := trainer/curves
DIR_kube     := operator/kube
DIR_operator := operator

# `source` is headers alone (cachefs/source.h, pack-sizes.h): they come with -Icachefs.
USES_base     :=
USES_order    := base
USES_walk     := base
USES_api      := base
USES_ctlwire  := base
USES_device   := base
USES_object   := base
USES_catalog  := base source
USES_layers   := base source catalog
USES_warmup   := base source catalog order
USES_cache    := base source catalog
USES_fetch    := base source catalog object
USES_transfer := base source catalog object fetch
USES_stage    := base source catalog object fetch
USES_volume   := base source catalog cache fetch object order warmup
USES_keeper   := base device
USES_outfuse  := base device keeper stage source catalog fetch object
USES_fuse     := keeper base device source catalog cache fetch object order warmup volume
USES_ctlserve := keeper base device source catalog cache fetch object order warmup volume fuse ctlwire stage
USES_jobs     := base
USES_server   := base order ctlwire pages jobs source catalog object fetch transfer
USES_cli      := keeper base walk device source catalog cache fetch object order warmup volume fuse ctlwire ctlserve transfer layers jobs pages server stage outfuse
USES_pages    := base
USES_csi      := base ctlwire pages
USES_loader   := base order walk ctlwire device
USES_train    := base order walk ctlwire loader
USES_kube     := base
USES_launch   := base walk kube train
USES_predict  := base order walk ctlwire loader train pages
USES_curves   := base pages
USES_operator := base api order kube pages

LIBS_base    := libcurl jansson libcrypto
LIBS_object  := libcrypto
LIBS_catalog := sqlite3 libcrypto
LIBS_cache   := liblz4
LIBS_fetch   := libcurl
LIBS_stage   := sqlite3
LIBS_fuse    := fuse3
LIBS_jobs    := sqlite3
LIBS_server  := libmicrohttpd
LIBS_kube    := libcurl libcrypto yaml-0.1
LIBS_pages   := libmicrohttpd
LIBS_csi     := grpc libprotobuf-c
LIBS_loader  := libjpeg libpng
LIBS_train   := openblas zlib
LIBS_predict := libmicrohttpd
LIBS_curves  := libmicrohttpd

# Libraries without a pkg-config file, and flags of a module's own (make/train.mk).
LDLIBS_train := -ldnnl -lgloo -lstdc++ -lgomp -lm

# Objects of sources that are generated (make/csi.mk).
GEN_csi := csi/csi.pb-c

# --- variants -----------------------------------------------------------------------------------
# VARIANT=release|debug|asan|tsan|fuzz picks the flags and the folder below build/.
VARIANT ?= release
BUILD   := build$(if $(filter-out release,$(VARIANT)),-$(VARIANT))
CC      ?= cc

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
        -Wwrite-strings -Wvla -Wformat=2 -Wundef
CFLAGS_release := -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong
CFLAGS_debug   := -O1 -g -DSAMPAN_DEBUG_LOCKS -DSAMPAN_TEST_LAYERS
CFLAGS_asan    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
                  -fno-sanitize-recover=undefined -DSAMPAN_DEBUG_LOCKS -DSAMPAN_TEST_LAYERS
CFLAGS_tsan    := -O1 -g -fno-omit-frame-pointer -fsanitize=thread -DSAMPAN_DEBUG_LOCKS \
                  -DSAMPAN_TEST_LAYERS
CFLAGS_fuzz    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link \
                  -fno-sanitize-recover=undefined
# `make CFLAGS=-O3` adds to what every file needs, and comes last; so does what the environment holds.
CFLAGS_GIVEN  := $(CFLAGS)
LDFLAGS_GIVEN := $(LDFLAGS)
override CFLAGS   = -std=gnu17 $(WARN) $(CFLAGS_$(VARIANT)) -fPIE -pthread -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 \
                    -DSAMPAN_VERSION='"$(VERSION)"' -include common/base/banned.h $(CFLAGS_GIVEN)
override LDFLAGS  = $(filter -fsanitize=%,$(CFLAGS_$(VARIANT))) -pie -pthread -Wl,-z,relro,-z,now $(LDFLAGS_GIVEN)

.DEFAULT_GOAL := all
.PHONY: all
all: $(BUILD)/bin/sampan $(BUILD)/bin/sampan-keeper $(BUILD)/bin/sampan-csi $(BUILD)/bin/sampan-operator $(BUILD)/bin/sampan-barrier $(BUILD)/bin/sampan-train

# --- modules ------------------------------------------------------------------------------------
inc_of   = $(if $(filter source,$(1)),-Icachefs,-I$(DIR_$(1))$(if $(GEN_$(1)), -I$(BUILD)/gen/$(1)))
pkgs_of  = $(sort $(foreach m,$(1),$(LIBS_$(m))))
ldlibs_of = $(foreach m,$(1),$(LDLIBS_$(m)))
lib_of   = $(foreach m,$(filter-out source,$(1)),$(BUILD)/lib/lib$(m).a)
srcs_of  = $(sort $(wildcard $(DIR_$(1))/*.c))
objs_of  = $(patsubst %.c,$(BUILD)/obj/%.o,$(call srcs_of,$(1))) $(patsubst %,$(BUILD)/obj/gen/%.o,$(GEN_$(1)))

define module_rules
$(BUILD)/obj/$(DIR_$(1))/%.o: $(DIR_$(1))/%.c Makefile
	@mkdir -p $$(@D)
	@echo "  CC    $$<"
	@$$(CC) $$(CFLAGS) $$(FLAGS_$(1)) $$(call inc_of,$(1)) $$(foreach u,$$(USES_$(1)),$$(call inc_of,$$(u))) \
	    $$(shell pkg-config --cflags $$(call pkgs_of,$(1) $$(USES_$(1)))) -MMD -MP -c -o $$@ $$<
$(BUILD)/lib/lib$(1).a: $$(call objs_of,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	@ar rcs $$@ $$^
-include $$(patsubst %.o,%.d,$$(call objs_of,$(1)))
.PHONY: module-$(1)
module-$(1): $(BUILD)/lib/lib$(1).a
endef
$(foreach m,$(MODULES),$(eval $(call module_rules,$(m))))
# The dashboard's files are part of the program.
$(BUILD)/obj/runtime-server/ui.o: $(wildcard runtime-server/ui/*)

# An rpath, so that a copy of the program finds copies of its libraries beside it (csi/programs.h).
# pthread_cancel() loads libgcc_s when it is first called, and ends the process where it cannot: out of
# descriptors, for one. Linked, it is there.
$(BUILD)/bin/sampan: $(call lib_of,$(filter-out $(APART),$(MODULES)))
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(LDFLAGS) -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/lib' -o $@.new \
	    -Wl,--start-group $^ -Wl,--end-group -Wl,--push-state,--no-as-needed -lgcc_s -Wl,--pop-state \
	    $(shell pkg-config --libs $(call pkgs_of,$(filter-out $(APART),$(MODULES))))
	@mv -f $@.new $@

# The keeper is a program of its own: static, from libc and the two headers of its module alone. The
# sanitizers cannot be linked statically.
KEEPER_SRCS  := $(sort $(wildcard cachefs/keeper/program/*.c))
KEEPER_LINK   = $(if $(filter -fsanitize=%,$(LDFLAGS)),$(LDFLAGS),-static-pie -Wl,-z,relro,-z,now)
$(BUILD)/bin/sampan-keeper: $(KEEPER_SRCS) $(wildcard cachefs/keeper/program/*.h) \
                            cachefs/keeper/state.h cachefs/keeper/channel.h Makefile
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(CFLAGS) -Icachefs/keeper -o $@.new $(KEEPER_SRCS) $(KEEPER_LINK)
	@mv -f $@.new $@

# What a job's pods wait in, in an image that holds no shell: from libc alone.
BARRIER_SRCS := operator/barrier/barrier.c
$(BUILD)/bin/sampan-barrier: $(BARRIER_SRCS) Makefile
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(CFLAGS) -o $@.new $(BARRIER_SRCS) $(KEEPER_LINK)
	@mv -f $@.new $@

OPERATOR_SRCS := $(sort $(wildcard operator/program/*.c))

# unit.mk first: the others go by its list of modules that have tests.
include make/unit.mk $(filter-out make/unit.mk,$(sort $(wildcard make/*.mk)))
