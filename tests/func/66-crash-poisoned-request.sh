#!/usr/bin/env bash
# A request that ends every life that serves it: after three deaths it is answered EIO and named in status, and
# everything else goes on.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 20 --size 20000
mount_set "file://$SRC"
poison=$(find "$MNT" -type f | sort | sed -n 7p)
id=$(stat -c %i "$poison")
unmount
rm -rf "$CACHE"
export SAMPAN_LAYERS="fault=read:unit:$id:abort"
if ! sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" 2>"$T/refused.err"; then
    skip "a release build has no layers: $(head -1 "$T/refused.err")"
fi
on_exit "unmount_quietly '$MNT'"
expect "the same id" "$(stat -c %i "$poison")" "$id"
export poison
find "$MNT" -type f ! -path "$poison" -print0 | xargs -0 -P 4 -n 4 cat >"$T/others" &
others=$!
code=0
cat "$poison" >"$T/poison" 2>"$T/poison.err" || code=$?
expect "exit code of reading it" "$code" 1
grep -q "Input/output error" "$T/poison.err" || fail "not EIO: $(cat "$T/poison.err")"
wait "$others" || fail "other readers saw an error"
expect "bytes of all others" "$(stat -c %s "$T/others")" $((39 * 20000))
at_least "deaths" "$(status restarts)" 3
status poisoned
expect "the poisoned path" "$(status poisoned.0.path)" "${poison#"$MNT"/}"
expect "the operation" "$(status poisoned.0.op)" read
expect "its deaths" "$(status poisoned.0.deaths)" 3
expect "careful" "$(status careful)" false
cat "$poison" >"$T/poison" 2>/dev/null && fail "it can be read"
unmount
