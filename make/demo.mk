# `make demo`: a few thousand pictures behind a web server 10 ms away, mounted and read; prints a table.
.PHONY: demo
demo: deps
	@$(MAKE) --no-print-directory all tools
	@SAMPAN=$(call quoted,$(CURDIR)/$(BUILD)/bin/sampan) TOOLS=$(call quoted,$(CURDIR)/$(BUILD)/tools) deploy/demo/demo.sh
