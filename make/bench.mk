# `make bench`: every row of docs/benchmarks.md measured here and now, side by side with the plain disk
# or plain GETs; writes build/bench/raw-*.jsonl and, when complete, docs/benchmarks.md. BENCH_QUICK=1
# is smaller and writes build/bench/benchmarks.md only; ROWS='hot cold' runs rows by name. Needs root
# (drops the page cache between passes).

BENCH_QUICK ?=
ROWS        ?=
BENCH_DIR   ?= build/bench

.PHONY: bench
bench: deps
	@$(MAKE) --no-print-directory all tools $(BUILD)/tools/bench-order
	@SAMPAN='$(CURDIR)/$(BUILD)/bin/sampan' TOOLS='$(CURDIR)/$(BUILD)/tools' BENCH_QUICK='$(BENCH_QUICK)' \
	    python3 tests/bench/bench.py --dir '$(BENCH_DIR)' $(ROWS)
