#!/usr/bin/env bash
# `make install` puts its files where a prefix with a blank says, for everybody to read whatever the umask; `make uninstall`
# takes these back and nothing else; a prefix that is no absolute path is refused.
. "$SAMPAN_TESTS/lib/common.sh"
need_command pkg-config
make_it() { # TARGET PREFIX
    make --no-print-directory -C "$SAMPAN_TESTS/.." "$1" DESTDIR="$T/root" PREFIX="$2" BUILD="$SAMPAN_BUILD" >>"$T/log/make" 2>&1
}
prefix="/opt/it's my & own" beside="$T/root/opt/it's"
mkdir -p "$beside" "$T/root$prefix/bin"
echo kept >"$beside/file"
echo kept >"$T/root$prefix/bin/other"
(umask 077 && make_it install "$prefix") || fail "make install: $(tail -3 "$T/log/make")"
expect "the program" "$("$T/root$prefix/bin/sampan" version | head -1)" "$(sampan version | head -1)"
[ -s "$T/root$prefix/share/man/man1/sampan-mount.1" ] || fail "no manual page"
expect "files of which not everybody can read" "$(find "$T/root$prefix" ! -path "*/other" -type f ! -perm -444)" ""
expect "folders that not everybody can enter" "$(find "$T/root$prefix"/*/* -type d ! -perm -555)" ""
make_it install "/opt/a b" || fail "make install: $(tail -3 "$T/log/make")"
expect "what pkg-config says" "$(PKG_CONFIG_PATH="$T/root/opt/a b/lib/pkgconfig" pkg-config --cflags sampan-order | xargs -n1)" \
    "-I/opt/a b/include/sampan"

make_it uninstall "$prefix" || fail "make uninstall: $(tail -3 "$T/log/make")"
make_it uninstall "/opt/a b" || fail "make uninstall: $(tail -3 "$T/log/make")"
expect "what is left" "$(cd "$T/root" && find . ! -type d | sort)" "./opt/it's my & own/bin/other
./opt/it's/file"

for wrong in relative '~/apps'; do
    ! make_it install "$wrong" || fail "PREFIX=$wrong is taken"
    grep -q "PREFIX=\"$wrong\".*begins with" "$T/log/make" || fail "what is said of $wrong: $(tail -3 "$T/log/make")"
done
