#!/usr/bin/env bash
# A mount over a bucket whose objects change goes back to a version that it keeps, and forth again: each version
# shows its own bytes, or says that the source has them no more; what is the same in both is fetched once; the
# owner's death and a new mount change nothing of it; what a scan finds meanwhile is served when it is let go.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 5 --size 20000
use_s3_proxy
cp -r "$SRC" "$T/one"
mount_set "s3://$BUCKET/" --no-hedge
one=$(status version)
a=class-000/000000.bin b=class-000/000001.bin c=class-000/000002.bin
for f in "$a" class-000/000003.bin class-001/000000.bin; do
    cmp "$T/one/$f" "$MNT/$f"
done
names() { (cd "$1" && find . -type f -printf '%P %s\n' | sort); }
change() { # FILE SEED : other bytes of the same length
    head -c 20000 /dev/zero | tr '\0' "$2" >"$SRC/$1"
    s3 put-bytes "$BUCKET" "$1" <"$SRC/$1"
}
change "$a" x
change "$b" y
s3 delete "$BUCKET" "$c"
rm "$SRC/$c"
change new.bin z
two=$(sampan scan "$MNT" --json | field version)
expect "served" "$(status version)" "$two"
same_bytes "$SRC" "$MNT"
exec 7<"$MNT/$b"

# Back. The first version of $a was read, those of $b and $c never, and the bucket has them no more.
before=$(gets)
sampan set "$MNT" "version=$one"
expect "version" "$(status version) $(status pinned)" "$one true"
expect "samples" "$(status set.samples)" 10
expect "names and sizes" "$(names "$MNT")" "$(names "$T/one")"
cmp "$T/one/$a" "$MNT/$a"
cmp "$T/one/class-000/000003.bin" "$MNT/class-000/000003.bin"
drop_pages
for f in "$a" class-000/000003.bin class-000/000004.bin class-001/000000.bin; do
    cmp "$T/one/$f" "$MNT/$f"
done
expect "asked for" "$(gets)" "$before"
for f in "$b" "$c"; do
    cat "$MNT/$f" >"$T/out" 2>"$T/err" && fail "$f was read, which is gone"
    grep -q Stale "$T/err" || fail "$f: $(cat "$T/err")"
    status stale_objects | has "$f" || fail "the status does not name $f: $(status stale_objects)"
done
[ ! -e "$MNT/new.bin" ] || fail "a sample of the other version is there"
cmp "$SRC/$b" /dev/fd/7 || fail "who read the newer version lost it"
exec 7<&-
s3 put-bytes "$BUCKET" "$b" <"$T/one/$b" # as it was
cmp "$T/one/$b" "$MNT/$b"

# It stays: over a scan, the owner's death, and for a new mount, whose refreshes rest.
change "$a" w
found=$(sampan scan "$MNT" --json | field version)
[ "$found" != "$one" ] && [ "$found" != "$two" ] || fail "the scan found $found"
expect "served after a scan" "$(status version)" "$one"
kill -9 "$(daemon_pid)"
cmp "$T/one/$a" "$MNT/$a"
expect "after a death" "$(status version) $(status pinned)" "$one true"
unmount
mount_set "s3://$BUCKET/" --no-hedge --refresh 1s
expect "in a new mount" "$(status version) $(status pinned)" "$one true"
expect "names and sizes" "$(names "$MNT")" "$(names "$T/one")"
cmp "$T/one/$a" "$MNT/$a"
expect "those that are kept" "$("$PYTHON" -c 'import json, sys; print(sorted(v["version"] for v in json.loads(sys.argv[1])) == sorted(sys.argv[2:]))' \
    "$(status versions)" "$one" "$two" "$found")" True

# What cannot be.
refused 3 "$two" sampan set "$MNT" "version=$(printf '0%.0s' $(seq 64))"
refused 2 "64 hexadecimal digits" sampan set "$MNT" version=latest
expect "what was refused changed nothing" "$(status version)" "$one"

# Forth: what the scan found.
sampan set "$MNT" version=
is_newest() { [ "$(status version) $(status pinned)" = "$found false" ]; }
until_true 30 is_newest || fail "$(status version) is served, not $found"
cp "$T/one/$b" "$SRC/$b"
same_bytes "$SRC" "$MNT"
unmount
