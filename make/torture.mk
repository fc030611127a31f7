# Faults, kills and power cuts (docs/testing.md). `make torture` runs long: TORTURE_CUTS power cuts,
# every n-th call of every kind failed and killed at, then TORTURE_SECONDS of seeds never tried before.
# `make torture K='cuts seed=17'` runs one kind. A short round of each is in tests/func.

TORTURE_CUTS    ?= 1000
TORTURE_SECONDS ?= 60
K               ?=

TORTURE_USES  := base source catalog cache fetch object order warmup volume
TORTURE_DIR   := $(BUILD)/torture
TORTURE_TOOLS := $(TORTURE_DIR)/meddle $(TORTURE_DIR)/replay $(TORTURE_DIR)/preload.so $(TORTURE_DIR)/drive \
                 $(TORTURE_DIR)/drive-stage
TORTURE_STAGE_USES := base source catalog object fetch stage
# Only the driver is what is tested: the others must not be slowed, or ended, by a checker.
TORTURE_CFLAGS := -O2 -g -std=gnu17 $(WARN) -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64

$(TORTURE_DIR)/meddle: $(addprefix tests/torture/,meddle.c trace.c calls.c record.c meddle.h oplog.h)
	@mkdir -p $(@D)
	@echo "  CC    $@"
	@$(CC) $(TORTURE_CFLAGS) -o $@ $(filter %.c,$^)
$(TORTURE_DIR)/replay: tests/torture/replay.c tests/torture/oplog.h
	@mkdir -p $(@D)
	@echo "  CC    $@"
	@$(CC) $(TORTURE_CFLAGS) -o $@ $<
$(TORTURE_DIR)/preload.so: tests/torture/preload.c
	@mkdir -p $(@D)
	@echo "  CC    $@"
	@$(CC) $(filter-out -D_FILE_OFFSET_BITS=64,$(TORTURE_CFLAGS)) -fPIC -shared -o $@ $< -ldl
$(TORTURE_DIR)/drive: tests/torture/drive.c tests/unit/volume/read-wait.h $(call lib_of,$(TORTURE_USES))
	@mkdir -p $(@D)
	@echo "  CC    $@"
	@$(CC) $(CFLAGS) $(foreach u,$(TORTURE_USES),$(call inc_of,$(u))) \
	    $(shell pkg-config --cflags $(call pkgs_of,$(TORTURE_USES))) $(LDFLAGS) -o $@ $< \
	    -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
	    $(shell pkg-config --libs $(call pkgs_of,$(TORTURE_USES)))
$(TORTURE_DIR)/drive-stage: tests/torture/drive-stage.c $(call lib_of,$(TORTURE_STAGE_USES))
	@mkdir -p $(@D)
	@echo "  CC    $@"
	@$(CC) $(CFLAGS) $(foreach u,$(TORTURE_STAGE_USES),$(call inc_of,$(u))) \
	    $(shell pkg-config --cflags $(call pkgs_of,$(TORTURE_STAGE_USES))) $(LDFLAGS) -o $@ $< \
	    -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
	    $(shell pkg-config --libs $(call pkgs_of,$(TORTURE_STAGE_USES)))

.PHONY: torture torture-tools
torture-tools: $(TORTURE_TOOLS)
tools: torture-tools
torture: all torture-tools
	@SAMPAN_BUILD=$(call quoted,$(CURDIR)/$(BUILD)) python3 tests/torture/torture.py --cuts $(TORTURE_CUTS) \
	    --seconds $(TORTURE_SECONDS) $(K)
