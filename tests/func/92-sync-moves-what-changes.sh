#!/usr/bin/env bash
# A source that has its copy's ETag when both are listed, and is replaced before it is deleted, is copied
# first; so is one whose copy is replaced or deleted meanwhile.
. "$SAMPAN_TESTS/lib/common.sh"
mkdir -p "$SRC"
for f in stays changes; do echo "$f" >"$SRC/$f"; done
use_s3_proxy from/
s3 put "$BUCKET" "$SRC" to/
to=$PROXY_URL
to_pid=$PROXY_PID
rm "$T/proxy.port"
mv "$T/log/proxy.access" "$T/log/proxy-to.access"
start_proxy "$MOTO_URL"

kill -STOP "$to_pid" # the destination is not listed before it goes on
sampan sync "s3://$BUCKET/from" "s3://$BUCKET/to" --endpoint "$PROXY_URL" --dst-endpoint "$to" --delete-src --json \
    >"$T/out" 2>"$T/err" &
moving=$!
until_true 20 grep -q '^GET .*prefix=from.* 200 ' "$T/log/proxy.access" || fail "the source is not listed"
echo changed >"$SRC/changes"
s3 put "$BUCKET" "$SRC" from/
kill -CONT "$to_pid"
wait $moving || fail "said: $(cat "$T/err")"
expect "deleted at the source" "$(field deleted_src <"$T/out")" 2
expect "copied, left alone" "$(field copied <"$T/out") $(field skipped <"$T/out")" "1 1"
expect "keys" "$(s3 keys "$BUCKET" | tr '\n' ' ')" "to/changes to/stays "
expect "what was changed" "$(s3 cat "$BUCKET" to/changes)" changed

# Now the copies change after both were listed.
rm "$SRC/changes"
for f in goes other; do echo "$f" >"$SRC/$f"; done
for d in from/ to/; do s3 put "$BUCKET" "$SRC" $d; done
: >"$T/log/proxy.access"
: >"$T/log/proxy-to.access"
kill -STOP "$to_pid"
sampan sync "s3://$BUCKET/from" "s3://$BUCKET/to" --endpoint "$PROXY_URL" --dst-endpoint "$to" --delete-src --json \
    >"$T/out" 2>"$T/err" &
moving=$!
until_true 20 grep -q '^GET .*prefix=from.* 200 ' "$T/log/proxy.access" || fail "the source is not listed"
kill -STOP "$PROXY_PID" # nor is it looked at before the copies have changed
kill -CONT "$to_pid"
until_true 20 grep -q '^GET .*prefix=to.* 200 ' "$T/log/proxy-to.access" || fail "the destination is not listed"
s3 delete "$BUCKET" to/goes
echo "ours " >"$T/ours"
mkdir "$T/put"
mv "$T/ours" "$T/put/other"
s3 put "$BUCKET" "$T/put" to/
kill -CONT "$PROXY_PID"
wait $moving || fail "said: $(cat "$T/err")"
expect "deleted at the source" "$(field deleted_src <"$T/out")" 3
expect "copied, left alone" "$(field copied <"$T/out") $(field skipped <"$T/out")" "2 1"
expect "what was gone" "$(s3 cat "$BUCKET" to/goes)" goes
expect "what was another" "$(s3 cat "$BUCKET" to/other)" other
