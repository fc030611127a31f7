# The CSI plugin: its generated messages and its program.
#
# csi.pb-c.{c,h} come from csi/csi.proto; they are built, not kept, and compiled without our warnings.
GEN_DIR := $(BUILD)/gen/csi

$(GEN_DIR)/csi.pb-c.h $(GEN_DIR)/csi.pb-c.c &: csi/csi.proto
	@mkdir -p $(@D)
	@echo "  GEN   $(GEN_DIR)/csi.pb-c.c"
	@protoc-c -Icsi --c_out=$(GEN_DIR) csi/csi.proto
$(BUILD)/obj/gen/csi/csi.pb-c.o: $(GEN_DIR)/csi.pb-c.c $(GEN_DIR)/csi.pb-c.h
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(filter-out -W%,$(CFLAGS)) -I$(GEN_DIR) $(shell pkg-config --cflags libprotobuf-c) -c -o $@ $<
$(call objs_of,csi) $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/unit/csi/*.c)): | $(GEN_DIR)/csi.pb-c.h

CSI_MODULES := csi $(USES_csi)
$(BUILD)/bin/sampan-csi: $(BUILD)/obj/csi/program/main.o $(call lib_of,$(CSI_MODULES))
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(LDFLAGS) -o $@.new $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
	    $(shell pkg-config --libs $(call pkgs_of,$(CSI_MODULES)))
	@mv -f $@.new $@
-include $(BUILD)/obj/csi/program/main.d
$(BUILD)/obj/tests/fuzz/fuzz-csi.o: | $(GEN_DIR)/csi.pb-c.h
