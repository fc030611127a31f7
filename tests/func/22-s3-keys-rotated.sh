#!/usr/bin/env bash
# The keys in a Secret folder change while mounted and the old ones are refused: no read fails.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
need_mount
make_set --classes 12 --files 100
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
secret() { # ACCESS : as a Kubernetes Secret is changed, by one rename
    mkdir -p "$T/secret/..$1"
    printf '%s' "$1" >"$T/secret/..$1/AWS_ACCESS_KEY_ID"
    printf 'secret of %s' "$1" >"$T/secret/..$1/AWS_SECRET_ACCESS_KEY"
    ln -sfn "..$1" "$T/secret/..data.new"
    mv -T "$T/secret/..data.new" "$T/secret/..data"
    ln -sf ..data/AWS_ACCESS_KEY_ID ..data/AWS_SECRET_ACCESS_KEY "$T/secret/"
}
secret OLDKEY
echo OLDKEY >"$T/keys"
start_s3odd --keys "$T/keys"
AWS_REGION=us-east-1 mount_set s3://samples/ --credentials "$T/secret"
cat "$MNT/class-000/000001.bin" >"$T/one"
secret NEWKEY
echo NEWKEY >"$T/keys"
same_bytes "$SRC" "$MNT"
expect "errors" "$(status reads.errors)" 0
grep -q "NEWKEY 20" "$T/log/s3odd" || fail "the new key was never used"
unmount
# A remount after the rotation finds its cache again: the set is the same one.
AWS_REGION=us-east-1 mount_set s3://samples/ --credentials "$T/secret"
same_bytes "$SRC" "$MNT"
expect "fetched again" "$(status fetch.bytes)" 0
unmount
# Keys that nobody knows: refused, and the folder is named.
echo NOBODY >"$T/keys"
refused 4 "InvalidAccessKeyId" sampan mount s3://samples/ "$MNT" --credentials "$T/secret" --region us-east-1 --cache "ssd:$T/c=1GiB"
nothing_left
