#!/usr/bin/env bash
# Storms of 503, cut bodies, resets, a source that changes, a destination that refuses or is full.
. "$SAMPAN_TESTS/lib/common.sh"
make_set --classes 2 --files 30 --size 2000..30000
head -c 18000000 /dev/urandom >"$SRC/large"
use_s3_proxy
faults "status=503 key=/class- times=25" "truncate key=/class- times=10" "reset key=/class- times=10" "truncate key=large times=3"
sampan sync "s3://$BUCKET/" "file://$T/dst" --json >"$T/out"
expect "failed" "$(field failed <"$T/out")" 0
same_bytes "$SRC" "$T/dst"
faults "status=503 key=up/class- times=25" "status=500 key=partNumber times=4"
sampan sync "file://$SRC" "s3://$BUCKET/up" --json >"$T/out"
expect "failed" "$(field failed <"$T/out")" 0
faults
mkdir "$T/boto"
s3 get "$BUCKET" "$T/boto"
same_bytes "$SRC" "$T/boto/up"

# an upload that ended without an answer has made its object; one that did not has failed, whatever else is there
long() { sampan sync "file://$SRC" "s3://$BUCKET/up" --include large --exclude '*' --force-update --json >"$T/out" 2>"$T/err"; }
faults "truncate key=?uploadId= times=1" "status=404 key=?uploadId="
long || fail "$(cat "$T/err")"
expect "copied" "$(field copied <"$T/out") $(field failed <"$T/out")" "1 0"
head -c 18000000 /dev/urandom >"$SRC/large"
faults "status=404 key=?uploadId="
code=0
long || code=$?
expect "exit code, failed" "$code $(field failed <"$T/out")" "1 1"
faults
long || fail "$(cat "$T/err")"

# flipped bytes are no object's: its ETag says so
rm -rf "$T/dst"
faults "flip key=/class- times=5"
sampan sync "s3://$BUCKET/up" "file://$T/dst" --quiet
same_bytes "$SRC" "$T/dst"

# a destination that refuses: each failure is named, the exit code is 1, the rest went on
faults "status=403 key=den/class-000"
code=0
sampan sync "file://$SRC" "s3://$BUCKET/den" --json >"$T/out" 2>"$T/err" || code=$?
expect "exit code" "$code" 1
expect "failed" "$(field failed <"$T/out")" 30
expect "copied" "$(field copied <"$T/out")" 31
field failures.0.error <"$T/out" | has -i denied || fail "the failure does not say why: $(field failures.0 <"$T/out")"
faults
sampan sync "file://$SRC" "s3://$BUCKET/den" --json >"$T/out"
expect "copied later" "$(field copied <"$T/out")" 30

# a source that changes in the middle is never half copied
(while :; do for v in A B; do head -c 17000000 /dev/zero | tr '\0' $v >"$T/new" && mv "$T/new" "$SRC/changing"; done; done) &
changer=$!
on_exit "kill $changer"
for i in 1 2 3; do
    sampan sync "file://$SRC" "s3://$BUCKET/up" --include changing --exclude '*' --force-update --quiet >"$T/out" 2>"$T/err" || true
    s3 keys "$BUCKET" | has up/changing || continue
    rm -rf "$T/one"
    sampan sync "s3://$BUCKET/up" "file://$T/one" --include changing --exclude '*' --quiet
    expect "kinds of bytes" "$(fold -w 1000000 "$T/one/changing" | cut -c1 | sort -u | wc -l)" 1
    expect "size" "$(stat -c %s "$T/one/changing")" 17000000
done
kill $changer
wait $changer 2>/dev/null || true
rm -f "$SRC/changing"

# a full disk: said once per object, nothing half-written, and the end of it
need_root "mounts a small tmpfs"
mkdir "$T/small"
mount -t tmpfs -o size=4m tmpfs "$T/small"
on_exit "umount -l $T/small"
code=0
sampan sync "file://$SRC" "file://$T/small/dst" --json >"$T/out" 2>"$T/err" || code=$?
expect "exit code" "$code" 1
field failures.0.error <"$T/out" | has -i "no space" || fail "it does not say that the disk is full"
(cd "$T/small/dst" && find . -type f -print0 | xargs -0 -r -I{} cmp {} "$SRC/{}") || fail "half a file"
