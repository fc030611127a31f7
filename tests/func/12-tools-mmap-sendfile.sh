#!/usr/bin/env bash
# mmap, sendfile, pread at odd places and reads past the end give the file's bytes.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --spec '{"c/a.bin": 300001, "c/empty.bin": 0, "c/one.bin": 1}'
mount_set "file://$SRC"
"$PYTHON" - "$SRC/c" "$MNT/c" <<'PY'
import mmap, os, random, sys
src, mnt = sys.argv[1:]
want = open(f"{src}/a.bin", "rb").read()
fd = os.open(f"{mnt}/a.bin", os.O_RDONLY)
with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as m:
    assert m[:] == want, "mmap"
out = os.memfd_create("out")
at = 0
while at < len(want):
    n = os.sendfile(out, fd, at, len(want) - at)
    assert n > 0, "sendfile ended early"
    at += n
assert os.pread(out, len(want) + 1, 0) == want, "sendfile"
rng = random.Random(1)
for _ in range(300):
    off, n = rng.randrange(len(want) + 10), rng.randrange(1, 70000)
    assert os.pread(fd, n, off) == want[off:off + n], f"pread {off} {n}"
assert os.pread(fd, 10, len(want)) == b"" and os.pread(fd, 10, 1 << 40) == b"", "past the end"
assert os.lseek(fd, 0, os.SEEK_END) == len(want)
assert open(f"{mnt}/empty.bin", "rb").read() == b"" and open(f"{mnt}/one.bin", "rb").read() == open(f"{src}/one.bin", "rb").read()
for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC, os.O_CREAT | os.O_WRONLY):
    try:
        os.open(f"{mnt}/a.bin", flags)
        raise SystemExit(f"open with {flags:o} worked on a read-only mount")
    except OSError as e:
        assert e.errno in (30, 13), e
PY
unmount
