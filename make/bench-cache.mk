# What the cache itself costs: `make bench-cache DIR=/path` (default /tmp) prints a line a figure.
BENCH_CACHE_USES := cache $(USES_cache)

$(BUILD)/bench/bench-cache: tests/bench/bench-cache.c $(call lib_of,$(BENCH_CACHE_USES))
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS) $(foreach u,$(BENCH_CACHE_USES),$(call inc_of,$(u))) \
	    $(shell pkg-config --cflags $(call pkgs_of,$(BENCH_CACHE_USES))) $(LDFLAGS) -o $@ $< \
	    -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
	    $(shell pkg-config --libs $(call pkgs_of,$(BENCH_CACHE_USES)))

.PHONY: bench-cache
bench-cache: $(BUILD)/bench/bench-cache
	@$< $(or $(DIR),/tmp)
