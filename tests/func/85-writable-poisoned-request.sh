#!/usr/bin/env bash
# A write that ends every life that serves it: after three deaths it is answered EIO and named in status; other
# writers go on, and what they wrote is stored whole.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
mkdir -p "$SRC"
mount_writable "file://$SRC"
mkdir "$MNT/logs"
echo first >"$MNT/logs/poison"
ino=$(stat -c %i "$MNT/logs/poison")
unmount
export SAMPAN_LAYERS="fault=write:unit:$ino:abort"
if ! sampan mount "file://$SRC" "$MNT" --writable --cache "ssd:$CACHE=1GiB" 2>"$T/refused.err"; then
    skip "a release build has no layers: $(head -1 "$T/refused.err")"
fi
on_exit "unmount_quietly '$MNT'"
expect "the same inode" "$(stat -c %i "$MNT/logs/poison")" "$ino"
# Writers that begin before the first death and are at work while the poison kills.
writer() { # N
    local i
    for i in $(seq 40); do
        seq "$1" 3000 >"$MNT/out-$1-$i" || return 1
        seq "$1" 3000 | cmp -s - "$MNT/out-$1-$i" || return 1
    done
}
writers=()
for n in 1 2 3; do
    writer $n &
    writers+=($!)
done
until_true 10 test -e "$MNT/out-3-1" || fail "the writers do not begin"
code=0
dd if=/dev/zero of="$MNT/logs/poison" bs=100 count=1 conv=notrunc status=none 2>"$T/poison.err" || code=$?
expect "exit code of the write" "$code" 1
grep -q "Input/output error" "$T/poison.err" || fail "not EIO: $(cat "$T/poison.err")"
for pid in "${writers[@]}"; do wait "$pid" || fail "another writer saw an error"; done
expect "restarts" "$(status restarts)" 3
expect "state" "$(status state)" ready
expect "the poisoned path" "$(status poisoned.0.path)" logs/poison
expect "the operation" "$(status poisoned.0.op)" write
expect "its deaths" "$(status poisoned.0.deaths)" 3
expect "careful" "$(status careful)" false
expect "what it held" "$(cat "$MNT/logs/poison")" first
dd if=/dev/zero of="$MNT/logs/poison" bs=100 count=1 seek=7 conv=notrunc status=none 2>"$T/other.err" &&
    fail "another place kills no more"
at_least "restarts, since that was another request" "$(status restarts)" 6
unset SAMPAN_LAYERS
unmount
for n in 1 2 3; do
    for i in $(seq 40); do seq $n 3000 | cmp -s - "$SRC/out-$n-$i" || fail "out-$n-$i is not what was written"; done
done
