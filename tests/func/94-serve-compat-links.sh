#!/usr/bin/env bash
# A list of paths that the Paddle Operator's client names is a file of the set: links that lie there lead nowhere else.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
mkdir -p "$SRC/folder" "$T/outside"
echo x >"$SRC/sample"
echo sample >"$SRC/list"
echo the-secret >"$T/outside/list"
mount_writable "file://$SRC"
ln -s "$T/outside/list" "$MNT/file-link"
ln -s "$T/outside" "$MNT/folder-link"
cp "$MNT/list" "$MNT/folder/list"
start_serve --compat-peers 127.0.0.0/8
BEARER=
warmup_from() { expect_code "$1" POST /upload/warmupOptions -H "filename: $2" -d "{\"file\":\"/mnt/imagenet/$3\"}"; }
warmup_from 200 a list
warmup_from 200 b folder/list
warmup_from 200 c folder//list
warmup_from 403 d file-link
grep -q 'file-link: a symbolic link' "$T/answer" || fail "$(cat "$T/answer")"
warmup_from 403 e folder-link/list # a link on the way is told as one, too
warmup_from 404 f nothing
! grep -rq the-secret "$T/serve" "$T/log/serve" || fail "it was read"
stop_serve
unmount
