#!/usr/bin/env bash
# Folder to S3, S3 to S3 at the server, S3 to folder: every byte and odd name arrives; a second run skips all.
. "$SAMPAN_TESTS/lib/common.sh"
make_set --classes 2 --files 8 --odd
use_s3
s3_names
long=$(printf 'n%.0s' {1..250})
mkdir -p "$SRC/$long/$long/$long"
echo long >"$SRC/$long/$long/$long/$long"
head -c 17000000 /dev/urandom >"$SRC/large"
n=$(find "$SRC" -type f | wc -l)

counts() { # FIELD FILE
    field "$1" <"$T/$2"
}
sampan sync "file://$SRC" "s3://$BUCKET/one/" --json >"$T/up"
expect "copied up" "$(counts copied up)" "$n"
expect "failed" "$(counts failed up)" 0
mkdir "$T/boto"
s3 get "$BUCKET" "$T/boto"
same_bytes "$SRC" "$T/boto/one"

start_proxy "$MOTO_URL"
AWS_ENDPOINT_URL=$PROXY_URL sampan sync "s3://$BUCKET/one/" "s3://$BUCKET/two" --json >"$T/across"
expect "copied across" "$(counts copied across)" "$n"
expect "objects that passed through" "$(grep -c '^GET /[^?]*/one/' "$T/log/proxy.access" || true)" 0

sampan sync "s3://$BUCKET/two/" "file://$T/down" --check-new --json >"$T/back"
expect "copied down" "$(counts copied back)" "$n"
expect "compared" "$(counts checked back)" "$n"
same_bytes "$SRC" "$T/down"

for pair in "file://$SRC s3://$BUCKET/one" "s3://$BUCKET/one s3://$BUCKET/two" "s3://$BUCKET/two file://$T/down"; do
    sampan sync ${pair% *} ${pair#* } --json >"$T/again"
    expect "copied again" "$(counts copied again)" 0
    expect "skipped" "$(counts skipped again)" "$n"
done
expect "uploads left behind" "$(s3 uploads "$BUCKET")" ""
