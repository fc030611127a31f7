# What the machine must have. `make deps` installs what is missing of it (Debian 12 names) and says
# what; it does nothing where all is there. `make deps-dev` adds what lint, fuzzing, memory checks and the
# dashboard's test in a browser need (it skips where there is no Chromium); `make venv` makes .venv with the pinned test servers of tests/requirements.txt.

DEPS_BUILD := gcc libc6-dev make pkg-config libfuse3-dev libcurl4-openssl-dev libsqlite3-dev liblz4-dev \
              libssl-dev libjansson-dev libyaml-dev libmicrohttpd-dev libgrpc-dev libprotobuf-c-dev \
              protobuf-c-compiler libjpeg62-turbo-dev libpng-dev g++ libopenblas-openmp-dev \
              libdnnl-dev libgloo-dev zlib1g-dev
DEPS_TEST  := fuse3 libcriterion-dev python3 python3-venv python3-numpy nginx-light attr iproute2 curl ca-certificates rsync
DEPS_DEV   := clang clang-tidy clang-format libclang-rt-14-dev valgrind chromium

.PHONY: deps deps-build deps-dev
deps:
	@tests/lib/install-packages $(DEPS_BUILD) $(DEPS_TEST)
deps-build:
	@tests/lib/install-packages $(DEPS_BUILD)
deps-dev: deps
	@tests/lib/install-packages $(DEPS_DEV)

# A machine that cannot build is told what to do before the first line of noise.
ifneq (,$(filter all install deb tools module-% unit-%,$(or $(MAKECMDGOALS),all)))
LACKING := $(shell for p in $(firstword $(CC)) pkg-config protoc-c; do command -v $$p >/dev/null || echo $$p; done)
ifeq (,$(LACKING))
LACKING := $(shell for l in $(call pkgs_of,$(MODULES)); do pkg-config --exists $$l || echo $$l; done)
endif
ifneq (,$(LACKING))
$(error cannot build: no $(LACKING) here (run "make deps-build", as root or with sudo))
endif
endif

.PHONY: venv
venv: .venv/made
.venv/made: tests/requirements.txt
	@echo "  VENV  .venv (tests/requirements.txt)"
	@rm -rf .venv
	@$$(test -x /usr/bin/python3 && echo /usr/bin/python3 || echo python3) -m venv .venv
	@.venv/bin/pip install --quiet --disable-pip-version-check -r tests/requirements.txt
	@touch $@
