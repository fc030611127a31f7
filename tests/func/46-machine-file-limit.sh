#!/usr/bin/env bash
# The largest file that processes may make (ulimit -f) is a full disk to them, and no signal that ends them: reads stay right,
# what can't be kept is told, and what can't be written is an error.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_command prlimit
make_set --classes 2 --files 30 --size 100000..300000
limited() { # KIB CMD…
    (ulimit -S -f "$1" && shift && sampan "$@")
}

refused 4 "the keeper's state: File too large .raise ulimit -f" limited 1000 mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB"
nothing_left

on_exit "unmount_quietly '$MNT'"
limited 1000 mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --no-keeper
pid=$(daemon_pid)
same_tree "$SRC" "$MNT"
until_true 10 test "$(status cache.tiers.0.state)" = full || fail "state: $(status cache.tiers.0.state)"
[[ $(status cache.tiers.0.why) == "append to pack 0 in $CACHE: File too large (raise ulimit -f)" ]] || fail "why: $(status cache.tiers.0.why)"
expect "errors" "$(status reads.errors)" 0
at_least "samples kept" "$(status cache.samples)" 1
drop_pages
same_tree "$SRC" "$MNT"
expect "its process" "$(daemon_pid)" "$pid"
unmount
rm -rf "$CACHE"

# Set while it runs: with a keeper it would start anew and anew.
mount_set "file://$SRC"
prlimit --pid "$(daemon_pid)" --fsize=1000000:1000000
same_tree "$SRC" "$MNT"
until_true 10 test "$(status cache.tiers.0.state)" = full || fail "state: $(status cache.tiers.0.state)"
expect "restarts" "$(status restarts)" 0
expect "errors" "$(status reads.errors)" 0
unmount

code=0
limited 200 sync "file://$SRC" "file://$T/copy" 2>"$T/said" || code=$?
[[ $code = [14] ]] || fail "exit code of sync: $code"
grep -q "File too large" "$T/said" || fail "sync: $(cat "$T/said")"
[ -z "$(find "$T/copy" -size +200k)" ] || fail "larger than may be: $(find "$T/copy" -size +200k)"
sampan sync "file://$SRC" "file://$T/copy" --quiet
same_bytes "$SRC" "$T/copy"
nothing_left
