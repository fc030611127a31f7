#!/usr/bin/env bash
# What a program may ask and is refused is no trouble of the mount's: neither counted nor logged.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
mkdir -p "$SRC"
mount_writable "file://$SRC" --log "$T/daemon.log"
"$PYTHON" - "$MNT" <<'PY'
import errno, fcntl, os, sys, termios
at = sys.argv[1]

def refused(wanted, call, *args):
    try:
        call(*args)
    except OSError as e:
        assert e.errno == wanted, (call, e)
    else:
        raise AssertionError((call, "was not refused"))

os.makedirs(at + "/folder/full")
file = os.open(at + "/file", os.O_RDWR | os.O_CREAT)
refused(errno.ENOTTY, fcntl.ioctl, file, termios.TCGETS, bytes(64))
refused(errno.ENOTEMPTY, os.rmdir, at + "/folder")
refused(errno.EEXIST, os.mkdir, at + "/folder")
refused(errno.EEXIST, os.open, at + "/file", os.O_CREAT | os.O_EXCL)
refused(errno.EOPNOTSUPP, os.open, at, os.O_TMPFILE | os.O_RDWR)
refused(errno.EFBIG, os.ftruncate, file, 1 << 62)
fcntl.flock(file, fcntl.LOCK_EX)
other = os.open(at + "/file", os.O_RDWR)
refused(errno.EAGAIN, fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
PY
sampan status "$MNT" --json | "$PYTHON" -c '
import json, sys
errors = json.load(sys.stdin)["requests"]["errors"]
assert errors == 0, errors'
! grep " failed: " "$T/daemon.log" || fail "the log complains of a caller's mistake"
unmount
