# `make bench`: every row of docs/benchmarks.md measured here and now, side by side with the plain disk
# or plain GETs; writes build/bench/raw-*.jsonl and, when complete, docs/benchmarks.md. BENCH_QUICK=1
# is smaller and writes build/bench/benchmarks.md only; ROWS='hot cold' runs rows by name. Needs root
# (drops the page cache between passes). `make bench-peers` sets other programs that mount buckets beside
# it, those that are installed: s3fs, rclone, mount-s3, geesefs, goofys (PEERS: options of peers.py).
# Rows beside PyTorch want TORCH_PYTHON, a Python that has it: that of `make conformance LOADERS=1`.

BENCH_QUICK ?=
ROWS        ?=
PEERS       ?=
BENCH_DIR   ?= build/bench

.PHONY: bench-peers
bench-peers: deps venv
	@$(MAKE) --no-print-directory all tools
	@SAMPAN='$(CURDIR)/$(BUILD)/bin/sampan' TOOLS='$(CURDIR)/$(BUILD)/tools' VENV_PYTHON=.venv/bin/python \
	    MINIO="$${MINIO:-$${CONFORMANCE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/sampan-conformance}/bin/minio}" \
	    python3 tests/bench/peers.py --dir '$(BENCH_DIR)' $(PEERS)

# The article's experiment alone: s3fs and MinIO where they are.
.PHONY: bench-article
bench-article: deps venv
	@MINIO="$${MINIO:-$${CONFORMANCE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/sampan-conformance}/bin/minio}" VENV_PYTHON=.venv/bin/python \
	    $(MAKE) --no-print-directory bench ROWS='article article-plain-mount'

.PHONY: bench
bench: deps
	@$(MAKE) --no-print-directory all tools $(BUILD)/tools/bench-order $(BUILD)/tools/bench-loader
	@SAMPAN='$(CURDIR)/$(BUILD)/bin/sampan' TOOLS='$(CURDIR)/$(BUILD)/tools' BENCH_QUICK='$(BENCH_QUICK)' \
	    TORCH_PYTHON="$${TORCH_PYTHON:-$${CONFORMANCE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/sampan-conformance}/loaders/bin/python}" \
	    python3 tests/bench/bench.py --dir '$(BENCH_DIR)' $(ROWS)
