"""A cache disk that is full: what calls said is so, in the mount and in the store.

  full_disk.py SAMPAN MOUNT STORE DISK SEED OPS [FILE]      goes on until FILE is there

Writes at random into open files of MOUNT, also through mappings. In the middle of it DISK is filled to the last byte.
Calls may fail with ENOSPC and with nothing else. As long as none of a file's did, whoever opens it sees what was written;
after one did, what he sees then. In the end there is room again, and STORE has what the mount showed.
"""
import ctypes
import errno
import itertools
import mmap
import os
import random
import subprocess
import sys

SAMPAN, MOUNT, STORE, DISK, SEED, OPS, *AWAITED = sys.argv[1:]
LONGEST, PAGE, MS_SYNC = 1 << 18, 4096, 4
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
DICE = random.Random(SEED)
REFUSED = {}


def content(path):
    with open(path, "rb") as f:
        return f.read()


def compare(what, got, want):
    if got != want:
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        sys.exit(f"{what}: {len(got)} bytes where {len(want)} are wanted, other ones from {at} on")


class File:
    def __init__(self, name):
        self.path = f"{MOUNT}/{name}"
        self.fd = os.open(self.path, os.O_CREAT | os.O_RDWR)
        self.reader = os.open(self.path, os.O_RDONLY)
        self.wanted = bytearray()

    def put(self, off, data):
        self.grow(off)
        self.wanted[off:off + len(data)] = data

    def grow(self, size):
        self.wanted.extend(bytes(max(0, size - len(self.wanted))))

    def write(self):
        off, data = DICE.randrange(LONGEST), DICE.randbytes(DICE.randrange(1, 65536))
        while data:
            n = os.pwrite(self.fd, data, off)
            self.put(off, data[:n])
            off, data = off + n, data[n:]

    def store_mapped(self):
        if not self.wanted:
            return
        off = DICE.randrange(len(self.wanted))
        data = DICE.randbytes(min(len(self.wanted) - off, DICE.randrange(1, 65536)))
        base = off // PAGE * PAGE
        size = off - base + len(data)
        # Not the mmap module: it closes a descriptor of its own, and drops the error that this close is told.
        at = LIBC.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, self.fd, base)
        if at == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "mmap")
        ctypes.memmove(at + off - base, data, len(data))
        self.put(off, data)
        code = ctypes.get_errno() if DICE.random() < .5 and LIBC.msync(at, size, MS_SYNC) else 0
        LIBC.munmap(at, size)
        if code:
            raise OSError(code, "msync")

    def truncate(self):
        size = DICE.randrange(LONGEST)
        os.ftruncate(self.fd, size)
        del self.wanted[size:]
        self.grow(size)

    def allocate(self):
        off, size = DICE.randrange(LONGEST), DICE.randrange(1, 65536)
        os.posix_fallocate(self.fd, off, size)
        self.grow(off + size)

    def sync(self):
        os.fsync(self.fd)
        compare(f"{self.path} after an fsync that went well", content(self.path), self.wanted)

    def close_and_open(self):
        fd, self.fd = self.fd, -1
        try:
            os.close(fd)
        finally:
            self.fd = os.open(self.path, os.O_RDWR)
        compare(f"{self.path} after a close that went well", content(self.path), self.wanted)

    def end(self):
        os.close(self.fd)

    def call(self, method):
        try:
            method()
        except OSError as e:
            if e.errno != errno.ENOSPC:
                raise
            REFUSED[method.__name__] = REFUSED.get(method.__name__, 0) + 1
            self.wanted = bytearray(content(self.path))

    def any_call(self):
        self.call(DICE.choice([self.write, self.truncate, self.allocate, self.sync, self.close_and_open] + 3 * [self.store_mapped]))


def fill_disk():
    with open(f"{DISK}/ballast", "ab", buffering=0) as f:
        for size in (1 << 16, PAGE, 1):
            try:
                while f.write(bytes(size)):
                    pass
            except OSError as e:
                if e.errno != errno.ENOSPC:
                    raise


def main():
    files, ops = [File(f"f{i}") for i in range(4)], int(OPS)
    for i in itertools.count():
        if i >= ops and all(map(os.path.exists, AWAITED)):
            break
        if i >= ops // 5 and i % (ops // 10) == 0:
            fill_disk()
        DICE.choice(files).any_call()
    for f in files:
        f.call(f.end)
    shown = [content(f.path) for f in files]
    os.unlink(f"{DISK}/ballast")
    subprocess.run([SAMPAN, "flush", MOUNT], check=True, timeout=600)
    for f, then in zip(files, shown):
        stored = content(f"{STORE}/{os.path.basename(f.path)}")
        compare(f"{f.path} before there was room", then, stored)
        compare(f"{f.path} when all was stored", content(f.path), stored)
        compare(f"{f.path} for who had it open all the time", os.pread(f.reader, 2 * LONGEST, 0), stored)
    print("refused:", REFUSED)
    for method in ("write", "store_mapped", "sync", "close_and_open"):
        if method not in REFUSED:
            sys.exit(f"never refused: {method}")


main()
