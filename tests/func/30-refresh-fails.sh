#!/usr/bin/env bash
# A source that cannot be listed any more: what was known stays, status and metrics say since when and why; then it is back.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 5
mount_set "file://$SRC" --refresh 1s
version=$(status version)
expect "how often" "$(status refresh.every_s)" 1.0
listed() { [ "$(status refresh.failed)" = 0 ] && [ -z "$(status refresh.why)" ]; }
listed || fail "it failed before: $(status refresh.why)"
mv "$SRC" "$SRC.away"
twice() { [ "$(status refresh.failed)" -ge 2 ]; }
until_true 30 twice || fail "status does not count what failed"
status refresh.why | has "$SRC" || fail "status does not say why: $(status refresh.why)"
sampan status "$MNT" | has "listed every 1.0s, the last time .* ago; since then [0-9]* failed: .*$SRC" ||
    fail "the text says nothing of it: $(sampan status "$MNT")"
sampan scan "$MNT" 2>/dev/null && fail "a scan of nothing was done"
expect "the version" "$(status version)" "$version"
[ -e "$MNT/class-000/000000.bin" ] || fail "a sample is gone"
mv "$SRC.away" "$SRC"
until_true 30 listed || fail "it does not recover"
same_tree "$SRC" "$MNT"
unmount

# Without --refresh only a scan tells.
mount_set "file://$SRC"
mv "$SRC" "$SRC.away"
sampan scan "$MNT" 2>/dev/null && fail "a scan of nothing was done"
expect "failed" "$(status refresh.failed) $(status refresh.every_s)" "1 0.0"
sampan status "$MNT" | has "listed on demand; 1 failed: .*$SRC" || fail "the text says nothing of it: $(sampan status "$MNT")"
mv "$SRC.away" "$SRC"
sampan scan "$MNT" >/dev/null
expect "failed" "$(status refresh.failed)" 0
unmount
