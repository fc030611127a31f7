# `make crash SECONDS=300`: what serves a mount is killed again and again under readers that compare every
# byte; one line of JSON a round (tests/crash/run tells what each means). ROUNDS='--mode shards --every 1'
# runs some alone.
SECONDS ?= 60
ROUNDS  ?=

.PHONY: crash
crash: all tools
	@SAMPAN=$(call quoted,$(CURDIR)/$(BUILD)/bin/sampan) SAMPAN_BUILD=$(call quoted,$(CURDIR)/$(BUILD)) \
	    tests/crash/run --seconds $(SECONDS) $(ROUNDS)
