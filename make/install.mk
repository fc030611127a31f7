# `make install` (DESTDIR, PREFIX): the programs, their manual pages, completion for bash and zsh: all
# of that text comes from the program itself; and libsampan-order and libsampan-loader for other programs. `make deb` packs
# the same tree into build/sampan_*.deb.

PREFIX      ?= /usr/local
INSTALL     ?= install
BINDIR      := $(DESTDIR)$(PREFIX)/bin
MANDIR      := $(DESTDIR)$(PREFIX)/share/man/man1
BASHDIR     := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
# Where zsh looks below its own prefix; Debian's looks elsewhere for what packages bring.
ZSH_SITE    ?= share/zsh/site-functions
ZSHDIR      := $(DESTDIR)$(PREFIX)/$(ZSH_SITE)
LIBDIR      := $(DESTDIR)$(PREFIX)/lib
LIBEXECDIR  := $(DESTDIR)$(PREFIX)/libexec/sampan
INCDIR      := $(DESTDIR)$(PREFIX)/include/sampan
VERBS       := $(patsubst cli/cmd-%.c,%,$(wildcard cli/cmd-*.c))
PROGRAM     := $(BUILD)/bin/sampan
PROGRAMS    := sampan sampan-csi sampan-operator sampan-train

# What the headers of both libraries include: one recipe, as both may be installed at once (-j).
.PHONY: err-header-install
err-header-install:
	@$(INSTALL) -d $(INCDIR)
	@$(INSTALL) -m 0644 common/base/err.h $(INCDIR)/

# The library alone.
.PHONY: order-install
order-install: $(BUILD)/lib/libsampan-order.a err-header-install
	@$(INSTALL) -d $(LIBDIR)/pkgconfig $(INCDIR)
	@$(INSTALL) -m 0644 $(ORDER_LIB) $(LIBDIR)/
	@$(INSTALL) -m 0644 $(ORDER_HEADERS) $(INCDIR)/
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' common/order/sampan-order.pc.in \
	    >$(LIBDIR)/pkgconfig/sampan-order.pc

.PHONY: install uninstall deb
install: all order-install loader-install
	@$(INSTALL) -d $(BINDIR) $(MANDIR) $(BASHDIR) $(ZSHDIR)
	@for program in $(PROGRAMS); do $(INSTALL) -m 0755 $(BUILD)/bin/$$program $(BINDIR)/$$program; done
	@$(INSTALL) -m 0755 deploy/kubectl/kubectl-sampan $(BINDIR)/kubectl-sampan
	@$(INSTALL) -d $(LIBEXECDIR)
	@$(INSTALL) -m 0755 $(BUILD)/bin/sampan-keeper $(LIBEXECDIR)/sampan-keeper
	@$(INSTALL) -m 0755 $(BUILD)/bin/sampan-barrier $(LIBEXECDIR)/sampan-barrier
	@for verb in $(VERBS); do $(PROGRAM) help --man $$verb >$(MANDIR)/sampan-$$verb.1; done
	@$(PROGRAM) help --man >$(MANDIR)/sampan.1
	@for program in $(filter-out sampan,$(PROGRAMS)); do $(BUILD)/bin/$$program --man >$(MANDIR)/$$program.1; done
	@for verb in predict ui launch split; do $(BUILD)/bin/sampan-train $$verb --man >$(MANDIR)/sampan-train-$$verb.1; done
	@$(PROGRAM) help --completion bash >$(BASHDIR)/sampan
	@$(PROGRAM) help --completion zsh >$(ZSHDIR)/_sampan
	@echo "  INSTALL $(DESTDIR)$(PREFIX)"

uninstall:
	@rm -f $(PROGRAMS:%=$(BINDIR)/%) $(BINDIR)/kubectl-sampan $(MANDIR)/sampan.1 $(MANDIR)/sampan-*.1 $(BASHDIR)/sampan $(ZSHDIR)/_sampan
	@rm -f $(LIBDIR)/libsampan-order.a $(LIBDIR)/pkgconfig/sampan-order.pc $(LIBDIR)/libsampan-loader.so* $(LIBDIR)/pkgconfig/sampan-loader.pc
	@rm -rf $(INCDIR) $(LIBEXECDIR)

DEB_ARCH = $(shell dpkg --print-architecture)
DEB      = build/sampan_$(VERSION)_$(DEB_ARCH).deb
deb: all
	@rm -rf build/deb
	@$(MAKE) --no-print-directory install DESTDIR=$(CURDIR)/build/deb PREFIX=/usr ZSH_SITE=share/zsh/vendor-completions
	@strip --strip-unneeded $(PROGRAMS:%=build/deb/usr/bin/%) build/deb/usr/libexec/sampan/*
	@gzip -9n build/deb/usr/share/man/man1/*.1
	@mkdir -p build/deb/DEBIAN build/deb/usr/share/doc/sampan
	@cp README.md build/deb/usr/share/doc/sampan/
	@sed -e 's/@VERSION@/$(VERSION)/' -e 's/@ARCH@/$(DEB_ARCH)/' deploy/debian/control.in >build/deb/DEBIAN/control
	@dpkg-deb --root-owner-group --build build/deb $(DEB) >/dev/null
	@rm -rf build/deb
	@echo "  DEB   $(DEB)"
