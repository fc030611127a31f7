#!/usr/bin/env bash
# Mounts that were told nothing hear from their servers which partition is theirs and who has the others: what
# another keeps is read from it, not from the store. A server that moves, a mount made anew and fewer partitions
# are told, too; an order of reading is set over HTTP.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
. "$SAMPAN_TESTS/lib/cluster.sh"
. "$SAMPAN_TESTS/lib/peers.sh"
need_mount
make_set --classes 2 --files 20
start_nginx
sampan scan "$HTTP_URL/" --cache "ssd:$T/scan=1GiB" -o "$T/set.catalog" >"$T/scan.out"
mount_all 2 "$HTTP_URL/" --catalog "$T/set.catalog"
for k in 0 1; do expect "partition before" "$(mount_status "$k" partition)" null; done
cluster 2 --guide 127.0.0.1
for k in 0 1; do ln -s "mnt-$k" "$T/m$k"; done
told() { # K PARTITIONS
    [ "$(mount_status "$1" partition.partition)/$(mount_status "$1" partition.partitions)" = "$1/$2" ]
}
for k in 0 1; do until_true 30 told "$k" 2 || fail "mount $k was not told: $(mount_status "$k" partition)"; done
all_peers_ok 2
at 0 expect_code 201 POST /v1/jobs -d '{"id":"w","type":"warmup"}'
at 0 wait_job w succeeded
: >"$T/log/nginx.access"
for k in 0 1; do same_bytes "$SRC" "$T/mnt-$k"; done
expect "requests to the store" "$(wc -l <"$T/log/nginx.access")" 0
token_file=$T/cache-0/$(cd "$T/cache-0" && find . -name peer-token)
expect "who may read the token" "$(stat -c %a "$token_file")" 600
for k in 0 1; do
    ! grep -rqF "$(cat "$T/token")" "$T/log" || fail "the token is in a log"
    sampan status "$T/mnt-$k" --json >"$T/status"
    ! grep -qF "$(cat "$T/token")" "$T/status" || fail "the token is in a status"
done

# The order of reading: by server, for its mount.
at 1 expect_code 200 POST /v1/settings -d '{"sampler":"torch-distributed,ranks=2,batch-size=4"}'
expect "mount 1 reads by" "$(mount_status 1 order.sampler | cut -d, -f1,2)" "torch-distributed,ranks=2"
expect "mount 0 reads by" "$(mount_status 0 order.sampler)" ""
expect "its partition" "$(mount_status 1 partition.partition)/$(mount_status 1 partition.partitions)" 1/2
at 1 expect_code 400 POST /v1/settings -d '{"sampler":"torch-distribute"}'
at 1 expect_code 400 POST /v1/settings -d '{"bandwidth":"1"}'
at 1 expect_code 400 POST /v1/settings -d '{}'
at 1 expect_code 400 POST /v1/settings -d 'sampler'
at 1 expect_code 400 POST /v1/settings -d '{"sampler":"","mount":"/nowhere"}'
at 1 expect_code 200 POST /v1/settings -d '{"sampler":""}'
expect "mount 1 reads by" "$(mount_status 1 order.sampler)" ""

# A mount made anew.
sampan umount "$T/mnt-1"
sampan mount "$HTTP_URL/" "$T/mnt-1" --cache "ssd:$T/cache-1=1GiB" --catalog "$T/set.catalog"
until_true 30 told 1 2 || fail "the new mount was not told"
# A token that is renewed, and a server that moved.
echo another-token-of-the-test >"$T/token.new" && mv "$T/token.new" "$T/token"
TOKEN=$(cat "$T/token")
written() { [ "$(cat "$token_file")" = "$TOKEN" ]; }
until_true 30 written || fail "the token beside the socket is old"
stop_member 0
start_member 0
see_states 1 "ok ok"
all_peers_ok 2
# One partition alone: undivided.
stop_cluster
PARTITIONS=1
start_member 0
undivided() { [ "$(mount_status 0 partition)" = null ]; }
until_true 30 undivided || fail "mount 0 keeps its partition"
expect "machines to ask" "$(mount_status 0 peers)" "[]"
stop_member 0
"$S" serve --mount "$T/mnt-0" --listen 127.0.0.1:0 --state "$T/serve-0" --token-file "$T/token" --guide 'http://a/' 2>"$T/err" && fail "took a URL"
grep -q 'want an address' "$T/err" || fail "said: $(cat "$T/err")"
unmount_all
