# libsampan-order.a: the samplers, resume tokens and partitions of common/order by themselves, for other
# programs. One object, so that only the names of its headers are seen: order_*, owner*, err_*.
# `make install` puts it, its headers and sampan-order.pc in place.

ORDER_LIB     := $(BUILD)/lib/libsampan-order.a
ORDER_HEADERS := common/order/order.h common/order/owner.h
ORDER_SRCS    := $(sort $(wildcard common/order/*.c)) common/base/err.c
ORDER_PIC     := $(ORDER_SRCS:%.c=$(BUILD)/pic/%.o)

$(BUILD)/pic/%.o: %.c Makefile make/order.mk
	@mkdir -p $(@D)
	@$(CC) $(filter-out -fPIE,$(CFLAGS)) -fPIC -Icommon/order -Icommon/base -MMD -MP -c -o $@ $<
-include $(ORDER_PIC:%.o=%.d)

$(ORDER_LIB): $(ORDER_PIC)
	@mkdir -p $(@D)
	@echo "  AR    $@"
	@$(CC) -nostdlib -r -o $(BUILD)/pic/sampan-order.o $^
	@objcopy --wildcard --keep-global-symbol='order_*' --keep-global-symbol='owner*' \
	    --keep-global-symbol='err_*' $(BUILD)/pic/sampan-order.o
	@rm -f $@
	@ar rcs $@ $(BUILD)/pic/sampan-order.o

$(BUILD)/tools/bench-order: tests/bench/bench-order.c $(ORDER_LIB)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(filter-out -include common/base/banned.h,$(CFLAGS)) -Icommon/order -Icommon/base $(LDFLAGS) -o $@ $^

.PHONY: order-lib
order-lib: $(ORDER_LIB)
