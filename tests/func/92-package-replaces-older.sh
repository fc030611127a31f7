#!/usr/bin/env bash
# What `make deb` packs is newer to dpkg than what was packed of the same version before: else `apt-get install` of it
# would keep the programs that are there, and say so with exit code 0.
. "$SAMPAN_TESTS/lib/common.sh"
need_command dpkg-deb
version=$(sampan version | sed -n '1s/^sampan //p')
before=$(date -u +%Y%m%d%H%M%S)
make --no-print-directory -C "$SAMPAN_TESTS/.." deb DEB="$T/sampan.deb" BUILD="$SAMPAN_BUILD" >"$T/log/make" 2>&1 ||
    fail "make deb: $(tail -3 "$T/log/make")"
packed=$(dpkg-deb -f "$T/sampan.deb" Version)
dpkg --compare-versions "$packed" ge "$version+$before" || fail "$packed is not newer than what was packed before"
dpkg --compare-versions "$packed" lt "$version.1" || fail "$packed is newer than the next version"
