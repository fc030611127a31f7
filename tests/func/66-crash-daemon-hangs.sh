#!/usr/bin/env bash
# A daemon that hangs, with no keeper to replace it, is not waited for: who asks about the mount is told so, it is not
# unmounted without a flush, and --lazy unmounts it anyway.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 2
mount_set "file://$SRC" --no-keeper
daemon=$(status pid)
kill -STOP "$daemon"
asked() { # NAME CMD…: in the background
    local name=$1
    shift
    (
        code=0
        "$@" >"$T/$name" 2>&1 || code=$?
        echo "exit $code" >>"$T/$name"
    ) &
}
asked status sampan status "$MNT"
asked all sampan status
asked doctor sampan doctor
asked stats sampan stats "$MNT" --count 1
asked umount sampan umount "$MNT"
asked upgrade sampan upgrade "$MNT"
asked evict sampan evict "$MNT" --to 0
asked set sampan set "$MNT" memory=1G
asked scan sampan scan "$MNT"
asked warmup sampan warmup "$MNT"
mkdir -m 700 "$T/elsewhere"
SAMPAN_RUN_DIR=$T/elsewhere asked serve sampan serve --mount "$MNT" --control "$CACHE/control.sock" --no-auth \
    --listen 127.0.0.1:0 --state "$T/state"
wait
said() { # NAME TEXT: and it failed, or not
    grep -qE -- "$2" "$T/$1" || fail "$1: $(cat "$T/$1")"
}
said status "no answer within .* hangs"
said status "^exit 1"
said all "does not answer"
said all "^exit 0"
said doctor "wrong .*does not answer"
said doctor "^exit 1"
said stats "no answer within"
for name in serve upgrade evict set scan warmup; do
    said "$name" "no answer within"
    said "$name" "^exit 1"
done
said umount "--lazy unmounts anyway"
is_mounted "$MNT" || fail "unmounted without a flush"
sampan umount "$MNT" --lazy
! is_mounted "$MNT" || fail "still mounted"
kill -KILL "$daemon"
sampan umount "$MNT"
nothing_left
