#!/usr/bin/env bash
# Packs are on the disk before the catalog that names them is: the first thing that is synced is the disk with the packs.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_tracing
make_set --classes 1 --files 30 --size 1000..20000
mkdir "$T/packed"
packed() { # TEXT N: the n-th sync fails, and that text is said
    "$MEDDLE" --below "$T/packed" --calls sync --nth "$2" --fail EIO --timeout 100 -- \
        "$S" sync "file://$SRC" "file://$T/packed" --pack 8MiB --quiet 2>"$T/said"
    grep -q "$1" "$T/said" || fail "sync $2: $(cat "$T/said")"
}
packed "write $T/packed to the disk" 1
packed "publish the set's catalog" 2
[ ! -e "$T/packed/.sampan/packed" ] || fail "a set is named that was not synced"
packed '"end":"exit 0"' 0
[ -s "$T/packed/.sampan/packed" ] || fail "no set"
