#!/usr/bin/env bash
# Who mounts a set that was mounted before learns at once that the keys are wrong, without a listing; the cache stays.
# A store that is away is said, and what is cached is served.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
need_mount
use_s3
make_set --classes 2 --files 4
s3_names
s3 put "$BUCKET" "$SRC"
cache="--cache ssd:$CACHE=1GiB"
mount_set "s3://$BUCKET/"
warm_all
samples=$(status cache.samples)
unmount
AWS_SECRET_ACCESS_KEY=wrong refused 4 "SignatureDoesNotMatch" sampan mount "s3://$BUCKET/" "$MNT" $cache
AWS_ACCESS_KEY_ID=AKIANOBODY refused 4 "InvalidAccessKeyId" sampan mount "s3://$BUCKET/" "$MNT" $cache
nothing_left
sampan mount "s3://$BUCKET/" "$MNT" $cache 2>"$T/said"
expect "what a right mount says" "$(cat "$T/said")" ""
expect "cached samples" "$(status cache.samples)" "$samples"
expect "fetched again" "$(status fetch.requests)" 0
same_bytes "$SRC" "$MNT"
unmount

# Each source of a set is asked.
mkdir "$T/near"
cp -a "$SRC/." "$T/near/"
printf '{"sources":[{"uri":"file://%s","at":"near/"},{"uri":"s3://%s/","at":"far/"}]}' "$T/near" "$BUCKET" >"$T/set.json"
sampan mount "$T/set.json" "$MNT" --cache "ssd:$T/cache-two=1GiB"
unmount
AWS_SECRET_ACCESS_KEY=wrong refused 4 "SignatureDoesNotMatch" sampan mount "$T/set.json" "$MNT" --cache "ssd:$T/cache-two=1GiB"
nothing_left

# A sample that the source changed meanwhile is no reason to refuse; a store that is away is none either.
start_s3odd
mount_set s3://samples/ --cache "ssd:$T/cache-odd=1GiB"
warm_all
unmount
find "$SRC" -type f -exec sh -c 'echo changed >>"$1"' - {} \;
sampan mount s3://samples/ "$MNT" --cache "ssd:$T/cache-odd=1GiB" 2>"$T/said"
expect "what a mount of a changed set says" "$(cat "$T/said")" ""
unmount
stop_s3odd
sampan mount s3://samples/ "$MNT" --cache "ssd:$T/cache-odd=1GiB" 2>"$T/said"
grep -q "only what is cached can be read now: s3://samples/.*could not connect" "$T/said" || fail "not said: $(cat "$T/said")"
same_bytes "$T/near" "$MNT"
unmount
"$PYTHON" - "${S3_URL##*:}" "$T/silent" <<'PY' & # takes connections and says nothing
import pathlib, socket, sys
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", int(sys.argv[1])))
server.listen(8)
pathlib.Path(sys.argv[2]).touch()
held = []
while True:
    held.append(server.accept())
PY
on_exit "kill $!; wait $!"
until_true 20 test -f "$T/silent" || fail "no server"
sampan mount s3://samples/ "$MNT" --cache "ssd:$T/cache-odd=1GiB" 2>"$T/said"
grep -q "only what is cached can be read now: s3://samples/.*no byte" "$T/said" || fail "not said: $(cat "$T/said")"
same_bytes "$T/near" "$MNT"
unmount
nothing_left
