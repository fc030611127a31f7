#!/usr/bin/env bash
# A sample of 5 GiB is read at its ends, at block borders and beyond 4 GiB; only those blocks are fetched.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
mkdir "$SRC/c"
"$PYTHON" - "$SRC/c/huge.bin" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
os.truncate(fd, (5 << 30) + 3)
for at in (0, 4194303, 4194304, 1 << 31, (1 << 32) - 5, (5 << 30) - 7):
    os.pwrite(fd, b"here %d" % at, at)
PY
start_nginx
mount_set "$HTTP_URL/"
"$PYTHON" - "$SRC/c/huge.bin" "$MNT/c/huge.bin" <<'PY'
import os, sys
want, got = (os.open(p, os.O_RDONLY) for p in sys.argv[1:])
size = os.fstat(want).st_size
assert os.fstat(got).st_size == size > 5 << 30
for at in (0, 4194303, 1 << 31, (1 << 32) - 5, (5 << 30) - 7):
    a, b = os.pread(want, 9000, at), os.pread(got, 9000, at)
    assert a == b, at
assert os.pread(got, 10, size) == b""
PY
at_most "bytes fetched" "$(status fetch.bytes)" $((200 << 20))
expect "errors" "$(status reads.errors)" 0
unmount
