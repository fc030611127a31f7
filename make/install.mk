# `make install` (DESTDIR, PREFIX): the programs, their manual pages, completion for bash and zsh: all
# of that text comes from the program itself; and libsampan-order and libsampan-loader for other programs. `make deb` packs
# the same tree into build/sampan_*.deb.

PREFIX      ?= /usr/local
INSTALL     ?= install
# Quoted (Makefile), each of them: a blank in a prefix is no border between two folders, to `uninstall` least of all.
blank       := $(subst ,, )
below       = $(call quoted,$(DESTDIR)$(PREFIX)/$(1))
BINDIR      := $(call below,bin)
MANDIR      := $(call below,share/man/man1)
BASHDIR     := $(call below,share/bash-completion/completions)
# Where zsh looks below its own prefix; Debian's looks elsewhere for what packages bring.
ZSH_SITE    ?= share/zsh/site-functions
ZSHDIR      := $(call below,$(ZSH_SITE))
LIBDIR      := $(call below,lib)
LIBEXECDIR  := $(call below,libexec/sampan)
INCDIR      := $(call below,include/sampan)
# What a program writes to a file of its own, readable whatever the umask of who installs.
WRITE       := $(INSTALL) -m 0644 /dev/stdin

# Anything else would end up below the folder that make runs in.
ifneq (,$(filter install uninstall %-install,$(MAKECMDGOALS)))
ifneq (,$(filter-out /%,$(firstword $(PREFIX)/))$(filter ~%,$(DESTDIR)))
$(error PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)": want a PREFIX that begins with "/", and "~" written out)
endif
endif

VERBS       := $(patsubst cli/cmd-%.c,%,$(wildcard cli/cmd-*.c))
PROGRAM     := $(BUILD)/bin/sampan
PROGRAMS    := sampan sampan-csi sampan-operator sampan-train

# A library's description for pkg-config, to which a blank is one after a backslash.
pc_install = { echo $(call quoted,prefix=$(subst $(blank),\ ,$(PREFIX))); sed -e 's|@VERSION@|$(VERSION)|' $(1); } | \
    $(WRITE) $(LIBDIR)/pkgconfig/$(notdir $(1:.in=))

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
	@$(call pc_install,common/order/sampan-order.pc.in)

.PHONY: install uninstall deb
install: all order-install loader-install
	@$(INSTALL) -d $(BINDIR) $(MANDIR) $(BASHDIR) $(ZSHDIR)
	@for program in $(PROGRAMS); do $(INSTALL) -m 0755 $(BUILD)/bin/$$program $(BINDIR)/$$program; done
	@$(INSTALL) -m 0755 deploy/kubectl/kubectl-sampan $(BINDIR)/kubectl-sampan
	@$(INSTALL) -d $(LIBEXECDIR)
	@$(INSTALL) -m 0755 $(BUILD)/bin/sampan-keeper $(LIBEXECDIR)/sampan-keeper
	@$(INSTALL) -m 0755 $(BUILD)/bin/sampan-barrier $(LIBEXECDIR)/sampan-barrier
	@for verb in $(VERBS); do $(PROGRAM) help --man $$verb | $(WRITE) $(MANDIR)/sampan-$$verb.1; done
	@$(PROGRAM) help --man | $(WRITE) $(MANDIR)/sampan.1
	@for program in $(filter-out sampan,$(PROGRAMS)); do $(BUILD)/bin/$$program --man | $(WRITE) $(MANDIR)/$$program.1; done
	@for verb in predict ui launch split; do $(BUILD)/bin/sampan-train $$verb --man | $(WRITE) $(MANDIR)/sampan-train-$$verb.1; done
	@$(PROGRAM) help --completion bash | $(WRITE) $(BASHDIR)/sampan
	@$(PROGRAM) help --completion zsh | $(WRITE) $(ZSHDIR)/_sampan
	@$(if $(DESTDIR),,[ "$$(id -u)" != 0 ] || ldconfig)
	@echo "  INSTALL "$(call quoted,$(DESTDIR)$(PREFIX))

uninstall:
	@rm -f $(PROGRAMS:%=$(BINDIR)/%) $(BINDIR)/kubectl-sampan $(MANDIR)/sampan.1 $(MANDIR)/sampan-*.1 $(BASHDIR)/sampan $(ZSHDIR)/_sampan
	@rm -f $(LIBDIR)/libsampan-order.a $(LIBDIR)/pkgconfig/sampan-order.pc $(LIBDIR)/libsampan-loader.so* $(LIBDIR)/pkgconfig/sampan-loader.pc
	@rm -rf $(INCDIR) $(LIBEXECDIR)

DEB_ARCH = $(shell dpkg --print-architecture)
DEB      = build/sampan_$(VERSION)_$(DEB_ARCH).deb
# With the time of its build: of a version that it has, apt-get says "already the newest" and installs nothing.
DEB_VERSION = $(VERSION)+$(shell date -u +%Y%m%d%H%M%S)
deb: all
	@rm -rf build/deb
	@$(MAKE) --no-print-directory install DESTDIR=$(call quoted,$(CURDIR)/build/deb) PREFIX=/usr ZSH_SITE=share/zsh/vendor-completions
	@strip --strip-unneeded $(PROGRAMS:%=build/deb/usr/bin/%) build/deb/usr/libexec/sampan/* \
	    build/deb/usr/lib/$(LOADER_SONAME)
	@gzip -9n build/deb/usr/share/man/man1/*.1
	@$(INSTALL) -d build/deb/DEBIAN build/deb/usr/share/doc/sampan
	@$(INSTALL) -m 0644 README.md build/deb/usr/share/doc/sampan/
	@sed -e 's/@VERSION@/$(DEB_VERSION)/' -e 's/@ARCH@/$(DEB_ARCH)/' deploy/debian/control.in | $(WRITE) build/deb/DEBIAN/control
	@echo activate-noawait ldconfig | $(WRITE) build/deb/DEBIAN/triggers
	@dpkg-deb --root-owner-group --build build/deb $(DEB) >/dev/null
	@rm -rf build/deb
	@echo "  DEB   $(DEB)"
