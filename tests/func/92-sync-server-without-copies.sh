#!/usr/bin/env bash
# A server that has both ends and no request to copy an object: the objects go through here.
. "$SAMPAN_TESTS/lib/common.sh"
mkfifo "$T/held"
exec 9<>"$T/held"
"$PYTHON" "$SAMPAN_TESTS/servers/s3mem.py" >"$T/server" <"$T/held" &
on_exit "kill -9 $!; wait $!"
listens() { grep -q listening "$T/server"; }
until_true 20 listens || fail "the server does not listen"
export AWS_ENDPOINT_URL=http://127.0.0.1:$(grep -o '[0-9]*$' "$T/server")
export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret AWS_REGION=us-east-1
mkdir "$SRC/d"
head -c 17000000 /dev/urandom >"$SRC/long"
echo short >"$SRC/d/short"
sampan sync "file://$SRC" s3://b/from --quiet
sampan sync s3://b/from s3://b/by-itself --quiet
at_least "copies by the server" "$(curl -sf "$AWS_ENDPOINT_URL/_count/COPY")" 2
curl -sf "$AWS_ENDPOINT_URL/_set?nocopy=2" >"$T/set"
sampan sync s3://b/from s3://b/to --check-new --quiet
for key in long d/short; do
    curl -sf "$AWS_ENDPOINT_URL/b/to/$key" | cmp - "$SRC/$key" || fail "the store has something else: $key"
done
