#!/usr/bin/env python3
"""Makes a set of samples: class folders of files whose bytes follow from (seed, path).

    make-set.py DIR [--classes N] [--files N] [--size BYTES[..BYTES]] [--seed N] [--odd] [--spec JSON]

--files is per class. --odd adds what real sets hold and simple code forgets: an empty file, names with
blanks, quotes, UTF-8, a newline, bytes that are no UTF-8, a deep path. --spec {"path": size, ...} makes
exactly those instead.
"""
import argparse
import json
import os
import random
import zlib

ODD_NAMES = [
    b"empty", b"with blank.bin", b"quote'\"s.bin", "gr\u00fc\u00df \u4f60\u597d.bin".encode(), b"line\nbreak.bin",
    b"bytes-\xff\xfe.bin", b"plus+and%25&x=y#z?.bin", b".hidden", b"-dash", b"back\\slash", b"deep/a/b/c/d/e/f/g.bin",
]


def content(seed, path, size):
    """`size` bytes that differ for every path and seed; cheap also for big files."""
    rng = random.Random(zlib.crc32(path) * 1000003 + seed)
    block = rng.randbytes(min(size, 65536))
    whole = bytearray(block * (size // max(1, len(block)) + 1))[:size]
    for at in range(0, size - 8, 65536):
        whole[at:at + 8] = at.to_bytes(8, "little")
    return bytes(whole)


def write(root, path, size, seed):
    full = os.path.join(os.fsencode(root), path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as out:
        out.write(content(seed, path, size))
    # A whole second in the past, different for each path: stores and listings keep it exactly.
    mtime = 1700000000 + zlib.crc32(path) % 1000000
    os.utime(full, (mtime, mtime))


def plan(options):
    if options.spec:
        for path, size in json.loads(options.spec).items():
            yield os.fsencode(path), size
        return
    low, _, high = options.size.partition("..")
    rng = random.Random(options.seed)
    for c in range(options.classes):
        for f in range(options.files):
            yield b"class-%03d/%06d.bin" % (c, f), rng.randint(int(low), int(high or low))
    if options.odd:
        for name in ODD_NAMES:
            yield b"odd/" + name, 0 if name == b"empty" else rng.randint(1, 5000)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir")
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--size", default="1000..30000")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--odd", action="store_true")
    parser.add_argument("--spec")
    options = parser.parse_args()
    for path, size in plan(options):
        write(options.dir, path, size, options.seed)


if __name__ == "__main__":
    main()
