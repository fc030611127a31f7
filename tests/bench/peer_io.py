#!/usr/bin/env python3
"""What `peers.py` does below a mount, in a process of its own, so that a mount that hangs can be given up.

    peer_io.py write DIR MIB FILES     one file of MIB MiB and FILES of 16 KiB: seconds of each, as JSON
    peer_io.py check DIR MIB FILES     reads them back: how many are missing or wrong, and seconds, as JSON
    peer_io.py look OLD NEW PATH       reads PATH whole: is it the bytes of OLD, of NEW, a mixture, or an error?
    peer_io.py halves OLD NEW PATH     the same in two halves, of one open file; says "half" and waits for a line between them
"""
import errno
import json
import os
import sys
import time

PIECE = 1 << 20
SMALL = 16 << 10


def piece(n, size=PIECE):
    """Bytes that tell where they belong."""
    return (b"%015d\n" % n) * (size // 16)


def write(where, mib, files):
    began = time.monotonic()
    with open(f"{where}/large", "wb", buffering=0) as out:
        for n in range(mib):
            data = memoryview(piece(n))
            while data:
                data = data[out.write(data):]
    large, began = time.monotonic() - began, time.monotonic()
    for n in range(files):
        with open(f"{where}/small-{n:06d}", "wb", buffering=0) as out:
            out.write(piece(n, SMALL))
    return {"large": large, "small": time.monotonic() - began}


def wrong(path, expected):
    try:
        with open(path, "rb", buffering=0) as file:
            for data in expected:
                have = b""
                while len(have) < len(data):
                    more = file.read(len(data) - len(have))
                    if not more:
                        return 1
                    have += more
                if have != data:
                    return 1
            return int(file.read(1) != b"")
    except OSError:
        return 1


def check(where, mib, files):
    began = time.monotonic()
    large = wrong(f"{where}/large", (piece(n) for n in range(mib)))
    middle = time.monotonic()
    small = sum(wrong(f"{where}/small-{n:06d}", [piece(n, SMALL)]) for n in range(files))
    return {"wrong": large + small, "large": middle - began, "small": time.monotonic() - middle}


def judged(old, new, data):
    if data in (old, new):
        return "old bytes" if data == old else "new bytes"
    at = range(0, max(len(old), len(data)), PIECE)
    ages = ["old" if data[n:n + PIECE] == old[n:n + PIECE] else "new" if data[n:n + PIECE] == new[n:n + PIECE] else "neither" for n in at]
    return "MIXED: of " + str(len(ages)) + " MiB " + ", ".join(f"{ages.count(age)} {age}" for age in ("old", "new", "neither") if age in ages)


def look(old, new, path, between=None):
    with open(old, "rb") as a, open(new, "rb") as b:
        old, new = a.read(), b.read()
    try:
        with open(path, "rb", buffering=0) as file:
            have, half = b"", len(old) // 2
            while len(have) < half:
                have += file.read(half - len(have)) or b"\0" * half
            if between:
                between()
            while more := file.read(PIECE):
                have += more
        return judged(old, new, have)
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))


def wait_between():
    print("half", flush=True)
    sys.stdin.readline()


def main():
    verb, *words = sys.argv[1:]
    if verb == "write":
        print(json.dumps(write(words[0], int(words[1]), int(words[2]))))
    elif verb == "check":
        print(json.dumps(check(words[0], int(words[1]), int(words[2]))))
    elif verb in ("look", "halves"):
        print(look(*words, wait_between if verb == "halves" else None))
    else:
        sys.exit(__doc__)
    sys.stdout.flush()
    os._exit(0)  # a file whose close() hangs is not waited for


if __name__ == "__main__":
    main()
