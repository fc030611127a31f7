#!/usr/bin/env bash
# What the store took from a life that was killed before the answer is not said to be another writer's.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
mkfifo "$T/held" && exec 9<>"$T/held" # the server lives as long as its standard input
"$PYTHON" "$SAMPAN_TESTS/servers/s3mem.py" >"$T/server" <"$T/held" &
on_exit "kill -9 $!; wait $!"
until_true 20 test -s "$T/server" || fail "the server does not start"
STORE=http://127.0.0.1:$(sed 's/.* //' "$T/server")
export AWS_ENDPOINT_URL=$STORE AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_REGION=us-east-1
ask() {
    curl -sS "$STORE$1"
}
ended() {
    [ "$(ask /_count/END)" = "$1" ]
}
mount_writable s3://bucket/out --commit background --refresh 100ms
head -c 20M /dev/zero >"$MNT/file"
sampan flush "$MNT"
ended 1 || fail "it did not go up in parts"
ask "/_set?silent=1"
head -c 20M /dev/urandom >"$T/want"
cp "$T/want" "$MNT/file"
until_true 20 ended 2 || fail "no second upload"
ask "/_set?deny=1" # the next life cannot store it before it lists
kill_life
ask "/_set?silent=0"
told() {
    ls "$MNT" >"$T/ls"
    grep -q "ours will replace it" "$SAMPAN_LOG"
}
until_true 20 told || fail "nothing is said of what the store has"
grep "ours will replace it" "$SAMPAN_LOG" | has "or ours of which no answer came" || fail "somebody else is blamed"
ask "/_set?deny=0"
sampan flush "$MNT"
cmp "$T/want" "$MNT/file"
unmount
