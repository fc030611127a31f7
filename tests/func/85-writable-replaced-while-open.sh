#!/usr/bin/env bash
# A reader in the middle of a file that another node replaces is given none of the new one's bytes, and no end where that
# one is shorter: not after somebody else on his machine has opened and read or mapped it either. Who opens a file that was
# replaced since this machine looked gets all of the new one.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_store # use_s3
mount_writable "$STORE/out" --refresh 1s
mount_writable_at 2 "$STORE/out"
export T MNT OTHER=$T/mnt-2
"$PYTHON" - <<'PY'
import errno, mmap, os, time

here, there = os.environ["MNT"] + "/file", os.environ["OTHER"] + "/file"
SIZE = 8 << 20


def store(letter, size):
    with open(there, "wb") as f:
        f.write(letter * size)


def now():
    with open(here, "rb", 0) as f:
        return f.read(1)


def wait_for(letter):
    give_up = time.monotonic() + 200
    while now() != letter:
        assert time.monotonic() < give_up, f"never came: {letter}"
        time.sleep(0.05)


def rest(fd, size):
    """The letters of what is left of so many bytes, or of what comes before the answer that the file is another."""
    seen, left = set(), size
    try:
        while data := os.read(fd, 1 << 16):
            seen |= set(data)
            left -= len(data)
        assert left == 0, f"an end {left} bytes too early"
    except OSError as e:
        assert e.errno == errno.ESTALE, e
    return seen


for letter, next_one, size in ((b"a", b"b", SIZE), (b"c", b"d", SIZE // 2), (b"e", b"f", SIZE)):
    store(letter, SIZE)
    wait_for(letter)
    first = os.open(here, os.O_RDONLY)
    assert os.read(first, 4096) == letter * 4096
    former = mmap.mmap(first, 4096, prot=mmap.PROT_READ)
    store(next_one, size)
    wait_for(next_one)
    second = os.open(here, os.O_RDONLY)
    assert rest(second, size) == set(next_one), "of what it is now"
    assert rest(first, SIZE - 4096) <= set(letter), f"bytes of what it is now in what it was: {letter}"
    with mmap.mmap(second, 0, prot=mmap.PROT_READ) as m:
        assert m[:4096] == next_one * 4096
    assert former[:] == letter * 4096, "a map of what it was shows what it is now"
    former.close()
    os.close(first)
    os.close(second)
    assert open(here, "rb").read() == next_one * size

SIZES = ((5000, 300000), (300000, 5000), (300000, 301000))
WAYS = ("to its end", "as long as it is said to be", "mapped")
cases = [(f"{way} {sizes}", way, *sizes) for sizes in SIZES for way in WAYS]
for name, _, size, _ in cases:
    os.mkdir(f"{os.environ['OTHER']}/{name}")
    there = f"{os.environ['OTHER']}/{name}/file"
    store(b"x", size)
give_up = time.monotonic() + 200
while not all(os.path.exists(f"{os.environ['MNT']}/{name}") for name, *_ in cases):
    assert time.monotonic() < give_up
    time.sleep(0.05)
for name, way, size, next_size in cases:
    here, there = (f"{os.environ[m]}/{name}/file" for m in ("MNT", "OTHER"))
    os.stat(here)
    store(b"y", next_size)
    with open(here, "rb", 0) as f:
        size = os.fstat(f.fileno()).st_size
        if way == "mapped":
            with mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
                seen = m[:]
        else:
            seen = f.read(size) if way.startswith("as long") else f.read()
    assert seen == b"y" * next_size, (name, len(seen), size, seen[:9], seen[-9:])
PY
sampan umount "$T/mnt-2"
unmount
