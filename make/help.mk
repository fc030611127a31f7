.PHONY: help
help:
	@echo "make            build/bin/sampan and its keeper, build/bin/sampan-csi, build/bin/sampan-operator (VARIANT=release|debug|asan|tsan|fuzz, CC=gcc|clang)"
	@echo "make demo       a small image set, mounted and read: what came from where, how fast"
	@echo "make test       everything: installs what is missing, unit and end-to-end tests"
	@echo "make unit-NAME  one module's unit tests          make func T='word …'  some end-to-end tests"
	@echo "make lint       format, rules, clang-tidy         make complexity  the longest files and functions"
	@echo "make asan tsan valgrind fuzz    the tests again, under checkers"
	@echo "make torture    every call failed, killed at, the power cut (TORTURE_CUTS=, TORTURE_SECONDS=, K=)"
	@echo "make bench      the table of docs/benchmarks.md, measured here (BENCH_QUICK=1: a short one)"
	@echo "make bench-peers  s3fs, rclone and their like beside it, those that are installed"
	@echo "make crash SECONDS=300  kill -9 of cachefs and keeper under readers that compare every byte"
	@echo "make conformance  suites from outside, with MinIO    make bare  the demo in a bare Debian 12"
	@echo "make install deb images  DESTDIR= PREFIX=         make deps deps-dev venv  what the machine must have"
