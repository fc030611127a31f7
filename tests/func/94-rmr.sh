#!/usr/bin/env bash
# rmr: just what is named goes, after it was shown; into the trash for a day, or for good.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
make_set --classes 3 --files 4
mkdir "$SRC/class-00"
echo near >"$SRC/class-00/near"
mkdir "$T/outside"
echo mine >"$T/outside/mine"
use_s3
s3 put "$BUCKET" "$SRC" p/
rmr() { sampan rmr "$@" --json >"$T/out" 2>"$T/err"; }
of() { field "removed.0.$1" <"$T/out"; }

# nobody can be asked: nothing goes; neither does a bucket, nor what is not there
refused 2 "4 objects.*--yes" sampan rmr "s3://$BUCKET/p/class-000" --json </dev/null
refused 2 "everything there" sampan rmr "s3://$BUCKET/" --yes
refused 3 "nothing there" sampan rmr "s3://$BUCKET/p/class" --yes
refused 2 "nothing can be removed" sampan rmr "http://127.0.0.1:1/x" --yes
rmr "s3://$BUCKET/p/class-000" --dry
expect "would go" "$(of objects)" 4
expect "all objects" "$(s3 keys "$BUCKET" | wc -l)" 13

rmr "s3://$BUCKET/p/class-000" --yes
expect "removed" "$(of removed)" 4
expect "its neighbours" "$(s3 keys "$BUCKET" | grep -c '^p/class-0')" 9
expect "in the trash" "$(s3 keys "$BUCKET" | grep -c '^p/\.trash/.*/class-000/')" 4
# the trash is no part of a set
expect "samples" "$(sampan scan "s3://$BUCKET/p" --cache "mem:$T/mem=1MiB" --cache-dir "$T/scan" --json | field samples)" 9
one=$(s3 keys "$BUCKET" | grep '^p/class-001/' | head -1)
rmr "s3://$BUCKET/$one" --yes --skip-trash
expect "one object" "$(of removed)" 1
expect "trash" "$(of trash)" null
expect "left in its class" "$(s3 keys "$BUCKET" | grep -c '^p/class-001/')" 3
# a day later it is gone
old=2001-01-01T000000Z-0001
echo x | s3 put-bytes "$BUCKET" "p/.trash/$old/x"
echo x | s3 put-bytes "$BUCKET" "p/.trash/mine/x"
rmr "s3://$BUCKET/p/class-002" --yes
expect "expired" "$(of expired)" 1
expect "kept in the trash" "$(s3 keys "$BUCKET" | grep -c '^p/\.trash/mine/x')" 1
rmr "s3://$BUCKET/p/.trash" --yes
expect "objects left" "$(s3 keys "$BUCKET" | wc -l)" 4
# what marks folders goes with them: of those with content, of empty ones, and that of the named one
s3 put-bytes "$BUCKET" m/ m/a m/d/ m/d/b m/d/deep/ m/d/deep/c m/empty/ m2/ </dev/null
rmr "s3://$BUCKET/m" --yes --skip-trash
expect "removed, the folder itself aside" "$(of removed)" 6
expect "left" "$(s3 keys "$BUCKET" | grep '^m')" "m2/"
rmr "s3://$BUCKET/m2" --yes --skip-trash
expect "left" "$(s3 keys "$BUCKET" | grep -c '^m' || true)" 0
start_proxy "$MOTO_URL"
# one that a server does not copy (versitygw) lies in the trash all the same
s3 put-bytes "$BUCKET" n/a n/d/ </dev/null
faults "status=400 key=/n/d/ times=1"
AWS_ENDPOINT_URL=$PROXY_URL rmr "s3://$BUCKET/n" --yes || fail "what marks a folder stays: $(cat "$T/err")"
expect "refused" "$(grep -c '^PUT .*/n/d/.* 400 ' "$T/log/proxy.access")" 1
expect "in the trash" "$(s3 keys "$BUCKET" | grep -c '/n/a$\|/n/d/$')" 2
expect "left" "$(s3 keys "$BUCKET" | grep -c '^n' || true)" 0
rmr "s3://$BUCKET/.trash" --yes
# a failure is named
faults "status=403 key=delete" "status=403 key=class-001"
code=0
AWS_ENDPOINT_URL=$PROXY_URL rmr "s3://$BUCKET/p/class-001" --yes --skip-trash || code=$?
expect "exit code" "$code" 4
expect "objects left" "$(s3 keys "$BUCKET" | wc -l)" 4

# copies go many at once; interrupted it ends, and says what is gone: all that, and nothing else, is in the trash
mkdir "$T/many"
(cd "$T/many" && for i in $(seq 96); do echo "$i" >"$i"; done)
s3 put "$BUCKET" "$T/many" q/x/
begin() { # FAULT : to be waited for
    faults "$1 key=.trash/"
    : >"$T/log/proxy.access"
    AWS_ENDPOINT_URL=$PROXY_URL "$S" rmr "s3://$BUCKET/q/x" --yes --json >"$T/out" 2>"$T/err" &
    running=$!
}
copies() { [ "$(grep -c '^PUT /.*\.trash/.* '"$2\$" "$T/log/proxy.access")" -ge "$1" ]; }
interrupt() {
    kill -INT $running
    code=0
    wait $running || code=$?
    expect "exit code" "$code" 130
    s3 keys "$BUCKET" >"$T/keys"
    grep -q "interrupted: $(of removed) of $1 objects" "$T/err" || fail "no word of it: $(cat "$T/err")"
    expect "failed" "$(of failed)" 0
    expect "gone" "$(($1 - $(grep -c '^q/x/' "$T/keys" || true)))" "$(of removed)"
}
begin stall-head
until_true 10 copies 16 "0 0" || fail "copied one after the other: $(cat "$T/log/proxy.access")"
interrupt 96
begin latency=200ms
until_true 10 copies 1 "200 [0-9]*"
interrupt 96
expect "in the trash" "$(grep -c '^q/\.trash/' "$T/keys" || true)" "$(of removed)"
rmr "s3://$BUCKET/q" --yes --skip-trash

# a folder: links are removed, not followed
cp -a "$SRC" "$T/dir"
ln -s "$T/outside" "$T/dir/class-000/link"
rmr "file://$T/dir/class-000" --yes
[ ! -e "$T/dir/class-000" ] || fail "the folder is still there"
expect "in the trash" "$(find "$T/dir/.trash" -type f | wc -l)" 4
ln -s "$T/outside" "$T/dir/class-001/link"
rmr "file://$T/dir/class-001" "file://$T/dir/class-00/near" --yes --skip-trash
expect "removed" "$(of removed)" 5
[ ! -e "$T/dir/class-001" ] && [ ! -e "$T/dir/class-00/near" ] || fail "still there"
expect "outside" "$(cat "$T/outside/mine")" mine
touch -d '2 days ago' "$T/dir/.trash"/*
mv "$T/dir/.trash"/* "$T/dir/.trash/$old"
rmr "file://$T/dir/class-002" --yes --skip-trash
expect "expired" "$(of expired)" 5
[ ! -e "$T/dir/.trash/$old" ] || fail "the old trash is still there"

# WebHDFS: renamed into the trash; for good
cp -a "$SRC" "$T/hdfs"
SRC="$T/hdfs" start_webhdfs
H="webhdfs://127.0.0.1:$HDFS_PORT"
rmr "$H/class-000" --yes
expect "in the trash" "$(find "$T/hdfs/.trash" -type f | wc -l)" 4
rmr "$H/class-001" --yes --skip-trash
[ ! -e "$T/hdfs/class-001" ] || fail "the folder is still there"
# An answer that was lost does not make it undone.
stop_webhdfs
cp -a "$SRC" "$T/lossy"
SRC="$T/lossy" start_webhdfs --lose "$T/lose"
H="webhdfs://127.0.0.1:$HDFS_PORT"
for name in class-000 class-001/000000.bin; do
    touch "$T/lose"
    rmr "$H/$name" --yes || fail "$name was moved into the trash"
    [ ! -e "$T/lose" ] || fail "no answer was lost"
    [ ! -e "$T/lossy/$name" ] || fail "$name is still there"
    expect "of $name in the trash" "$(find "$T/lossy" -regex ".*/\.trash/[^/]*/${name##*/}" | wc -l)" 1
done
