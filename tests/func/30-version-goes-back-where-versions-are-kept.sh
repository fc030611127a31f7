#!/usr/bin/env bash
# A bucket that keeps versions: a set goes back to bytes that no cache has, of objects that were replaced, deleted, or
# replaced very often; what the bucket has forgotten is stale. Who may not look is told what to allow, and asks no more.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 9 --size 20000
at=class-000
head -c 9000000 /dev/urandom >"$SRC/$at/large.bin" # three units
cp "$SRC/$at/000008.bin" "$SRC/$at/a b+ü&.bin"
head -c 20000 /dev/urandom >"$SRC/$at/000003" # others begin with its name
use_s3_proxy
s3 versioned "$BUCKET" # what was written before has no id but "null"
for f in 000001.bin 000005.bin; do
    head -c 20000 /dev/zero | tr '\0' v >"$SRC/$at/$f"
    s3 put-bytes "$BUCKET" "$at/$f" <"$SRC/$at/$f"
done
cp -r "$SRC" "$T/one"
mount_set "s3://$BUCKET/" --no-hedge
one=$(status version)

# Nothing was read yet. All is replaced by other bytes of the same length, or goes.
for f in 000000.bin 000001.bin 000003 000003.bin 000005.bin 000006.bin 000007.bin large.bin "a b+ü&.bin"; do
    tr '\0-\377' '\1-\377\0' <"$T/one/$at/$f" >"$SRC/$at/$f"
    s3 put-bytes "$BUCKET" "$at/$f" <"$SRC/$at/$f"
done
s3 delete "$BUCKET" "$at/000002.bin"
rm "$SRC/$at/000002.bin"
s3 replace "$BUCKET" "$at/000004.bin" 130 # more than one page of versions
printf 129 >"$SRC/$at/000004.bin"
two=$(sampan scan "$MNT" --json | field version)
expect "served" "$(status version)" "$two"
same_bytes "$SRC" "$MNT"

sampan set "$MNT" "version=$one"
for f in 000000.bin 000001.bin 000002.bin 000003 000003.bin 000004.bin large.bin "a b+ü&.bin" 000008.bin; do
    cmp "$T/one/$at/$f" "$MNT/$at/$f"
done
expect "stale" "$(status stale_objects)" "[]"

is_stale() { # NAME
    ! cat "$MNT/$at/$1" >"$T/out" 2>"$T/err" || fail "$1 was read"
    grep -q Stale "$T/err" || fail "$1: $(cat "$T/err")"
}

# The bucket has forgotten it. (Reads in order have others fetched ahead: these begin with an empty cache.)
s3 forget "$BUCKET" "$at/000005.bin"
sampan clear "$MNT"
is_stale 000005.bin
cmp "$T/one/$at/000000.bin" "$MNT/$at/000000.bin"

# The key may not look: it is told once what would help.
asked() { grep -c "^GET [^ ]*?versions=" "$T/log/proxy.access" || true; }
faults "status=403 key=?versions="
unmount
mount_set "s3://$BUCKET/" --no-hedge
expect "still pinned" "$(status version)" "$one"
sampan clear "$MNT"
is_stale 000007.bin
grep -q "s3:ListBucketVersions" "$SAMPAN_LOG" || fail "the log names no cure"
before=$(asked)
is_stale 000006.bin
expect "asked again" "$(asked)" "$before"

# It may look, and not read; then it may.
for rule in "status=403 key=?versionId=" ""; do
    faults "$rule"
    unmount
    mount_set "s3://$BUCKET/" --no-hedge
    if [ -n "$rule" ]; then is_stale 000006.bin; else cmp "$T/one/$at/000006.bin" "$MNT/$at/000006.bin"; fi
done
unmount
