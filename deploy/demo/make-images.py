#!/usr/bin/env python3
"""Writes real PNG pictures in class folders: make-images.py DIR COUNT. Prints how many bytes.

Each is a soft blob of its class's colour under grain, 120 to 250 pixels wide, so sizes are those of
photographs at thumbnail quality (about 40 to 190 KB).
"""
import os
import random
import signal
import struct
import sys
import zlib

CLASSES = ["barge", "canoe", "catamaran", "dhow", "ferry", "gondola", "junk", "kayak", "sampan", "tugboat"]


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width, height, rows):
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def picture(rng, colour):
    width = height = rng.randrange(120, 250)
    tint = bytes(min(255, max(0, c + rng.randrange(-40, 40))) for c in colour)
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        if abs(y - height // 2) < height // 8:
            rows += tint * width  # the hull: flat colour, which compresses
        else:
            rows += rng.randbytes(3 * width)
    return png(width, height, bytes(rows))


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the demo says enough
    root, count = sys.argv[1], int(sys.argv[2])
    rng, total = random.Random(2026), 0
    for i in range(count):
        name = CLASSES[i % len(CLASSES)]
        where = os.path.join(root, name)
        os.makedirs(where, exist_ok=True)
        body = picture(rng, bytes((37 * (i % len(CLASSES)) % 256, 90, 160)))
        with open(os.path.join(where, f"{i:05d}.png"), "wb") as out:
            out.write(body)
        total += len(body)
    print(total)


if __name__ == "__main__":
    main()
