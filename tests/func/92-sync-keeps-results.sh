#!/usr/bin/env bash
# What jobs wrote below a set (.sampan-output/NAMESPACE/JOB) is no sample: scans pass over it, and a sync into the set that
# deletes what the source lacks leaves it alone; elsewhere the name means nothing.
. "$SAMPAN_TESTS/lib/common.sh"
make_set --classes 2 --files 3
results=$SRC/.sampan-output/default/resnet
mkdir -p "$results" "$SRC/class-000/.sampan-output"
echo weights >"$results/model.pt"
echo sample >"$SRC/class-000/.sampan-output/x"
scanned() { sampan scan "$1" --cache "mem:$T/mem=1MiB" --cache-dir "$T/scan" --json; }
scanned "file://$SRC" >"$T/first"
expect "samples" "$(field samples <"$T/first")" 7
echo more >>"$results/model.pt"
echo curve >"$results/vdlrecords.log"
expect "results make no version" "$(scanned "file://$SRC" | field version)" "$(field version <"$T/first")"
mount_set "file://$SRC"
expect "what is seen" "$(find "$MNT" -type f ! -path '*/.sampan/*' | wc -l)" 7
[ ! -e "$MNT/.sampan-output" ] || fail "the mount shows the results"
unmount

mkdir "$T/from"
cp -a "$SRC/class-000" "$T/from/"
sampan sync "file://$T/from" "file://$SRC" --delete-dst --json >"$T/out" 2>"$T/err"
expect "what the source lacks" "$(find "$SRC/class-001" -type f | wc -l)" 0
expect "results" "$(cat "$results/model.pt")" "weights
more"
use_s3
echo gone >"$SRC/class-000/gone"
s3 put "$BUCKET" "$SRC" set/
sampan sync "file://$T/from" "s3://$BUCKET/set" --delete-dst --json >"$T/out" 2>"$T/err"
expect "results in a bucket" "$(s3 keys "$BUCKET" | grep -c '^set/\.sampan-output/default/resnet/')" 2
expect "samples in it" "$(scanned "s3://$BUCKET/set" | field samples)" "$(find "$T/from" -type f | wc -l)"
