#!/usr/bin/env bash
# The status as text tells people what --json tells scripts: which version is served and whether it is pinned, which
# others are kept (by names that `set version=` takes), which machines are asked and which of them are not well; of a
# mount that can be written what was written, and nothing of samples.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/peers.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
make_set --classes 2 --files 3
text_has() { # MOUNT PATTERN
    sampan status "$1" >"$T/text" || fail "no status of $1"
    grep -Eq -- "$2" "$T/text" || fail "the text does not say '$2': $(cat "$T/text")"
}
text_lacks() { # MOUNT PATTERN
    sampan status "$1" >"$T/text" || fail "no status of $1"
    ! grep -E -- "$2" "$T/text" || fail "the text says '$2'"
}
says_lost() { sampan status "$T/m0" | has -E "partition 1, ${URL[1]}.*: lost: .*connect"; }

mkdir -p "$T/single/folder"
echo x >"$T/single/folder/x"
(
    SRC=$T/single CACHE=$T/cache-single
    mount_set "file://$SRC"
    cat "$MNT/folder/x" >/dev/null
    text_has "$MNT" "set +1 sample, .*, 1 folder, "
    text_has "$MNT" "cache +1 sample .100"
    unmount
)
peer_nodes 2 "file://$SRC"
all_peers_ok 2
text_has "$T/m0" 'peers +2 known, 2 ok, '
one=$(sampan status "$T/m0" --json | field version)
text_lacks "$T/m0" 'pinned|also kept'
echo new >"$SRC/class-000/new.bin"
two=$(sampan scan "$T/m0" --json | field version)
text_has "$T/m0" "version ${two:0:12}$"
text_has "$T/m0" "also kept: ${one:0:12}, 6 samples, scanned .* ago"
sampan set "$T/m0" "version=${one:0:12}"
expect "version by the name that the text has" "$(sampan status "$T/m0" --json | field version)" "$one"
text_has "$T/m0" "version ${one:0:12}$"
text_has "$T/m0" "pinned: .*sampan set $T/m0 version="
text_has "$T/m0" "also kept: ${two:0:12}, 7 samples"
refused 2 "first 8" sampan set "$T/m0" "version=${two:0:7}"
other=$(tr 0-9a-f f0-9a-e <<<"${one:0:12}") # each digit another one
refused 2 "the status lists them" sampan set "$T/m0" "version=$other"
sampan set "$T/m0" version=
text_lacks "$T/m0" 'pinned'
peer_stop 1 KILL # seen when it is asked for its half
same_bytes "$SRC" "$T/m0"
until_true 60 says_lost || fail "the lost one is not named: $(sampan status "$T/m0")"
text_has "$T/m0" 'peers +2 known, 1 ok, '
unpeer

mkdir "$T/out"
mount_writable "file://$T/out"
echo written >"$MNT/file"
text_has "$MNT" 'writes +[1-9][0-9]* \(.*[1-9][0-9]* uploads .* 0 failed'
text_has "$MNT" 'pending +nothing'
text_lacks "$MNT" '^  (set|warmup) '
unmount
nothing_left
