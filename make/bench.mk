# `make bench`: every row of docs/benchmarks.md measured here and now, side by side with the plain disk
# or plain GETs; writes build/bench/raw-*.jsonl and, when complete, docs/benchmarks.md. BENCH_QUICK=1
# is smaller and writes build/bench/benchmarks.md only; ROWS='hot cold' runs rows by name. Needs root
# (drops the page cache between passes). `make bench-peers` sets other programs that mount buckets beside
# it: JuiceFS, mountpoint-s3, rclone, s3fs, which tests/bench/fetch-peers fetches or builds once (PEERS_CACHE), geesefs and
# goofys where they are installed. It takes 15 minutes and writes the table of docs/benchmarks/peers.md; BENCH_QUICK=1: 4, and
# build/bench/peers.md only; PEERS: options and programs for peers.py.
# Rows with a server of S3 want MinIO, that of `make conformance` or MINIO=PATH; rows beside PyTorch TORCH_PYTHON, a Python
# that has it: that of `make conformance LOADERS=1`.

BENCH_QUICK ?=
ROWS        ?=
PEERS       ?=
BENCH_DIR   ?= build/bench
PEERS_CACHE ?= $${XDG_CACHE_HOME:-$$HOME/.cache}/sampan-peers
BENCH_MINIO  = $${MINIO:-$${CONFORMANCE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/sampan-conformance}/bin/minio}

.PHONY: bench-peers
bench-peers: deps venv
	@$(MAKE) --no-print-directory all tools
	@minio="$(BENCH_MINIO)" && peers="$(PEERS_CACHE)" && \
	    if [ -x "$$minio" ]; then mkdir -p "$$peers/bin" && ln -sf "$$minio" "$$peers/bin/minio"; fi && \
	    export VENV_PYTHON=.venv/bin/python && tests/bench/fetch-peers "$$peers" && \
	    SAMPAN=$(call quoted,$(CURDIR)/$(BUILD)/bin/sampan) TOOLS=$(call quoted,$(CURDIR)/$(BUILD)/tools) PEERS_BIN="$$peers/bin" BENCH_QUICK='$(BENCH_QUICK)' \
	    .venv/bin/python tests/bench/peers.py --dir '$(BENCH_DIR)' $(PEERS)

# The article's experiment alone: s3fs and MinIO where they are.
.PHONY: bench-article
bench-article:
	@$(MAKE) --no-print-directory bench ROWS='article article-plain-mount'

.PHONY: bench
bench: deps venv
	@$(MAKE) --no-print-directory all tools $(BUILD)/tools/bench-order $(BUILD)/tools/bench-loader
	@SAMPAN=$(call quoted,$(CURDIR)/$(BUILD)/bin/sampan) TOOLS=$(call quoted,$(CURDIR)/$(BUILD)/tools) BENCH_QUICK='$(BENCH_QUICK)' \
	    VENV_PYTHON=.venv/bin/python MINIO="$(BENCH_MINIO)" \
	    TORCH_PYTHON="$${TORCH_PYTHON:-$${CONFORMANCE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/sampan-conformance}/loaders/bin/python}" \
	    python3 tests/bench/bench.py --dir '$(BENCH_DIR)' $(ROWS)
