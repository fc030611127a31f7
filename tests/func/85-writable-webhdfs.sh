#!/usr/bin/env bash
# A writable mount of WebHDFS, which knows no ETags: what another writer replaces by as many bytes is noticed by the
# time of its change, also in the middle of a read; what was uploaded here is still the same when it is listed; what a
# killed upload has left under a temporary name is deleted by the next life.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
. "$SAMPAN_TESTS/servers/start.sh"
need_mount
mkdir -p "$SRC"
start_webhdfs
"$PYTHON" - "$SRC" <<'PY'
import sys
open(sys.argv[1] + "/old", "wb").write(b"A" * (24 << 20))
PY
mount_writable "webhdfs://127.0.0.1:$HDFS_PORT/" --refresh 1h
"$PYTHON" - "$MNT" "$SRC" <<'PY'
import errno, os, sys
mnt, src = sys.argv[1:]
fd = os.open(mnt + "/old", os.O_RDONLY)
assert os.pread(fd, 100, 0) == b"A" * 100
with open(src + "/new", "wb") as f:
    f.write(b"B" * (24 << 20))
os.rename(src + "/new", src + "/old")
try:
    os.pread(fd, 100, 20 << 20)
except OSError as e:
    assert e.errno == errno.ESTALE, e
else:
    sys.exit("bytes of two objects were given to one reader")
os.close(fd)
PY
unmount

mount_writable "webhdfs://127.0.0.1:$HDFS_PORT/" --refresh 50ms
expect "the new object" "$(head -c 3 "$MNT/old")" BBB
"$PYTHON" - "$MNT" "$SRC" <<'PY'
import os, sys, time
mnt, src = sys.argv[1:]
for name, size in (("small", 5000), ("large", 20 << 20)):
    data = os.urandom(size)
    with open(f"{mnt}/{name}", "wb") as f:
        f.write(data)
    assert open(f"{src}/{name}", "rb").read() == data, name
    fd = os.open(f"{mnt}/{name}", os.O_RDWR)
    assert os.pread(fd, 100, 0) == data[:100]
    for _ in range(3): # listed again and again
        time.sleep(0.1)
        assert name in os.listdir(mnt)
    assert os.pread(fd, 100, size - 100) == data[-100:], name
    os.pwrite(fd, b"changed", 10)
    os.close(fd)
    assert open(f"{src}/{name}", "rb").read() == data[:10] + b"changed" + data[17:], name
os.mkdir(mnt + "/folder")
os.rename(mnt + "/small", mnt + "/folder/moved")
os.unlink(mnt + "/large")
PY
sampan flush "$MNT"
expect "what is stored" "$(cd "$SRC" && find . -type f | sort | tr '\n' ' ')" "./folder/moved ./old "
unmount

mount_writable "webhdfs://127.0.0.1:$HDFS_PORT/" --commit background
head -c $((64 << 20)) /dev/urandom >"$T/huge"
temporary() { compgen -G "$SRC/.sampan-put-*" >/dev/null; }
cp "$T/huge" "$MNT/huge"
until_true 60 temporary || fail "the upload was not seen"
first=$(cd "$SRC" && ls -d .sampan-put-* | head -1)
kill -9 "$(status pid)"
sampan flush "$MNT"
cmp "$T/huge" "$SRC/huge" || fail "not stored as written"
temporary && fail "left behind: $(ls -A "$SRC"); the killed one's was $first"
[ "$(status restarts)" -ge 1 ] || fail "it was not killed"
unmount

# What others left, who will not come back: gone a day later, with nothing else; never shown.
echo half >"$SRC/.sampan-put-of-today"
for left in one two; do
    echo half >"$SRC/.sampan-put-$left"
    touch -d '2 days ago' "$SRC/.sampan-put-$left"
done
touch -d '2 days ago' "$SRC/old"
mount_writable "webhdfs://127.0.0.1:$HDFS_PORT/" --refresh 50ms
tidied() { [ "$(ls "$MNT")" = "$shown" ] || fail "shown: $(ls "$MNT")"; [ "$(ls -A "$SRC" | grep -c sampan-put)" = 1 ]; }
shown=$(printf 'folder\nhuge\nold')
until_true 60 tidied || fail "not gone: $(ls -A "$SRC")"
[ -e "$SRC/.sampan-put-of-today" ] || fail "what may still be written is gone"
unmount
rm "$SRC/.sampan-put-of-today"
nothing_left
