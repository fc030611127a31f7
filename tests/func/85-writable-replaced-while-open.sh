#!/usr/bin/env bash
# A reader in the middle of a file that another node replaces is given none of the new one's bytes: not those either that
# somebody else on his machine, who opened it later, has read. That one may map it.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_store # use_s3
mount_writable "$STORE/out" --refresh 1s
mount_writable_at 2 "$STORE/out"
export T MNT
"$PYTHON" - <<'PY'
import errno, mmap, os, time

here, there = os.environ["MNT"] + "/file", os.environ["T"] + "/mnt-2/file"
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


def rest(fd):
    """The letters of what is left: an end, or that the file is another."""
    seen = set()
    try:
        while data := os.read(fd, 1 << 16):
            seen |= set(data)
    except OSError as e:
        assert e.errno == errno.ESTALE, e
    return seen


for letter, next_one, size in ((b"a", b"b", SIZE), (b"c", b"d", SIZE // 2), (b"e", b"f", SIZE)):
    store(letter, SIZE)
    wait_for(letter)
    first = os.open(here, os.O_RDONLY)
    assert os.read(first, 4096) == letter * 4096
    store(next_one, size)
    wait_for(next_one)
    second = os.open(here, os.O_RDONLY)
    assert rest(second) == set(next_one), "of what it is now"
    assert rest(first) <= set(letter), f"bytes of what it is now in what it was: {letter}"
    with mmap.mmap(second, 0, prot=mmap.PROT_READ) as m:
        assert m[:4096] == next_one * 4096
    os.close(first)
    os.close(second)
    assert open(here, "rb").read() == next_one * size
PY
sampan umount "$T/mnt-2"
unmount
