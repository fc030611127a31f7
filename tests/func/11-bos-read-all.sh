#!/usr/bin/env bash
# BOS: every request's bce-auth-v1 signature is checked by the server; pages without a next marker; ranges; a session token.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
need_mount
make_set --odd
rm -f "$SRC"/odd/bytes-* "$SRC"/odd/line*
"$PYTHON" "$SAMPAN_TESTS/lib/make-set.py" "$SRC" --spec '{"big/nine.bin": 9000000}'
start_bos --page 9
mount_set "bos://samples/" --endpoint "$BOS_URL"
same_tree "$SRC" "$MNT"
grep -q "^GET /samples/big/nine.bin bytes=4194304-8388607 206" "$T/log/bos" || fail "the big object was not read by parts"
unmount
mount_set "bos://samples.127.0.0.1:${BOS_URL##*:}/odd" --cache "ssd:$T/cache2=1GiB"
same_tree "$SRC/odd" "$MNT"
unmount
stop_bos
start_bos --token t0ken/with+signs=
BCE_SESSION_TOKEN=t0ken/with+signs= mount_set "bos://samples/class-000/" --endpoint "$BOS_URL" --cache "ssd:$T/cache3=1GiB"
same_tree "$SRC/class-000" "$MNT"
unmount
nothing_left
