#!/usr/bin/env bash
# What is old at the store is told by the store's clock: a machine whose own is off by days takes away neither what another
# removed into the trash just now nor the pack of another's run, and others keep for a day what it removed.
. "$SAMPAN_TESTS/lib/common.sh"
make_set --classes 4 --files 3
use_s3
s3_names
s3 put "$BUCKET" "$SRC" p/
echo 0 >"$T/clock"
at() { # SECONDS-OFF ARGS… : sampan on a machine with such a clock
    echo "$1" >"$T/clock"
    LD_PRELOAD="$SAMPAN_BUILD/torture/preload.so" TORTURE_CLOCK="$T/clock" "$S" "${@:2}" >"$T/out" 2>"$T/err" ||
        fail "$*: $(cat "$T/err")"
}
in_trash() { s3 keys "$BUCKET" | grep -c "^p/\.trash/.*/$1/" || true; }
at 0 rmr "s3://$BUCKET/p/class-000" --yes
at 300000 rmr "s3://$BUCKET/p/class-001" --yes
expect "what the first removed" "$(in_trash class-000)" 3
at -300000 rmr "s3://$BUCKET/p/class-002" --yes
at 0 rmr "s3://$BUCKET/p/class-003" --yes
expect "what the third removed" "$(in_trash class-002)" 3

at 0 sync "file://$SRC" "s3://$BUCKET/packed" --pack 8MiB
echo "another run's" | s3 put-bytes "$BUCKET" packed/.sampan/packs/ffffffffffffffffffffffffffffffff
echo more >"$SRC/class-000/more"
at 7300 sync "file://$SRC" "s3://$BUCKET/packed" --pack 8MiB
s3 keys "$BUCKET" >"$T/keys"
grep -q '^packed/.sampan/packs/ffff' "$T/keys" || fail "the pack of another run is gone: $(cat "$T/keys" "$T/out")"
