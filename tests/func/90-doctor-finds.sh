#!/usr/bin/env bash
# doctor is content with a sound mount and names what is wrong with a stale one, with the cure.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 3
mount_set "file://$SRC" --no-keeper
sampan doctor "$MNT" >"$T/sound" 2>&1 || fail "doctor objects to a sound mount: $(cat "$T/sound")"
kill -9 $(daemons)
until_true 10 no_daemon
code=0
sampan doctor >"$T/stale" 2>&1 || code=$?
grep -q "$MNT" "$T/stale" || fail "doctor does not name the dead mount: $(cat "$T/stale")"
grep -q "umount" "$T/stale" || fail "doctor names no cure: $(cat "$T/stale")"
[ $code != 0 ] || fail "exit 0 although something is wrong"
sampan umount "$MNT"

# A dead mount is no folder of samples, however it is named.
CACHE=$T/cache-dead # the other's lock goes when the kernel is done with who held it
mount_set "file://$SRC"
all_killed() { # the owner may have called a new keeper before its turn came
    kill -9 $(keepers) $(daemons) || true
    no_daemon
}
until_true 10 all_killed
for name in "$MNT" "$(basename "$MNT")"; do
    code=0
    (cd "$(dirname "$MNT")" && sampan doctor "$name") >"$T/dead" 2>&1 || code=$?
    expect "exit code" "$code" 1
    grep -q "dead mount.*$MNT.*sampan mount file://$SRC $MNT" "$T/dead" || fail "no dead mount, no cure: $(cat "$T/dead")"
    ! grep "listing\|listed" "$T/dead" || fail "it was taken for a folder"
done
refused 1 "have ended.*sampan mount.*sampan umount $MNT" sampan scan "$MNT"
refused 1 "have ended" sampan status "$MNT"
sampan umount "$MNT"

# One that no register knows any more, at a name with a blank.
mkdir "$T/a b" "$T/other-run"
sampan mount "file://$SRC" "$T/a b" --no-keeper --cache "ssd:$T/cache-blank=1GiB"
kill -9 $(daemons)
until_true 10 no_daemon
SAMPAN_RUN_DIR=$T/other-run sampan doctor >"$T/dead" || true
grep -q "^wrong .*dead mount: .*: $T/a b (sampan umount '$T/a b')" "$T/dead" || fail "not found: $(cat "$T/dead")"
sampan umount "$T/a b"

# A mount that has read all, and whose store is gone.
start_nginx
CACHE=$T/cache-http
mount_set "$HTTP_URL/"
same_bytes "$SRC" "$MNT"
sampan doctor "$MNT" >"$T/sound" || fail "doctor objects to a sound mount: $(cat "$T/sound")"
grep -q "^ok .*listing and reading: $HTTP_URL" "$T/sound" || fail "the store was not asked: $(cat "$T/sound")"
before=$(status fetch.requests)
mv "$SRC" "$SRC.gone"
code=0
sampan doctor "$MNT" >"$T/gone" || code=$?
expect "exit code" "$code" 1
grep -q "^wrong .*cannot be listed: $HTTP_URL" "$T/gone" || fail "the store is gone, and doctor says: $(cat "$T/gone")"
expect "requests that readers made" "$(status fetch.requests)" "$before"
mv "$SRC.gone" "$SRC"
sampan doctor "$MNT" --json >"$T/json" || fail "the store is back, and doctor says: $(cat "$T/json")"
expect "wrong" "$(field wrong <"$T/json")" 0
# Another machine that is not there: also where all mounts are looked at.
sampan set "$MNT" "peers=http://127.0.0.1:$(free_port)"
finds_peer() { ! sampan doctor "$@" >"$T/peer" && grep -q "^wrong .*other machines.*connect" "$T/peer"; }
until_true 30 finds_peer || fail "the peer that is not there: $(cat "$T/peer")"
finds_peer "$MNT" || fail "the peer that is not there: $(cat "$T/peer")"
unmount
nothing_left
