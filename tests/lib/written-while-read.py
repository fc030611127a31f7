#!/usr/bin/env python3
"""written-while-read.py FILE SECONDS [PID]: one process rewrites FILE with rising numbers through a descriptor that can only
write; others read it, through descriptors and mappings opened before and after it. Fails if one of them sees a number below
the one whose write had returned before he asked. PID is killed in the middle."""
import mmap
import multiprocessing as mp
import os
import signal
import struct
import sys
import time

PLACES, APART, LONG = 3, 65536, 61440  # no place begins or ends with a page


def write(path, shared, stop):
    fd, number = os.open(path, os.O_WRONLY), 0
    while not stop.value:
        number += 1
        for place in range(PLACES):
            content = struct.pack("<Q", number) * (LONG // 8)
            if os.pwrite(fd, content, place * APART + 100) != LONG:
                sys.exit("a short write")
            shared[place] = number


def read(path, shared, stop, mapped, answers):
    fd, reads, old = os.open(path, os.O_RDONLY), 0, 0
    mapping = mmap.mmap(fd, PLACES * APART, mmap.MAP_SHARED, mmap.PROT_READ) if mapped else None
    while not stop.value:
        for place in range(PLACES):
            least, at = shared[place], place * APART + 100
            content = mapping[at:at + LONG] if mapped else os.pread(fd, LONG, at)
            old += min(memoryview(content).cast("Q")) < least
            reads += 1
    answers.put((reads, old))


def main():
    path, seconds = sys.argv[1], float(sys.argv[2])
    with open(path, "wb") as f:
        f.write(bytes(PLACES * APART))
    shared, stop, answers = mp.Array("Q", PLACES, lock=False), mp.Value("b", 0, lock=False), mp.Queue()
    readers = [mp.Process(target=read, args=(path, shared, stop, mapped, answers), daemon=True) for mapped in (False, True) * 2]
    writer = mp.Process(target=write, args=(path, shared, stop), daemon=True)
    for process in (*readers[:2], writer, *readers[2:]):
        process.start()
    time.sleep(seconds / 2)
    if len(sys.argv) > 3:
        os.kill(int(sys.argv[3]), signal.SIGKILL)
    time.sleep(seconds / 2)
    stop.value = 1
    seen = [answers.get(timeout=60) for _ in readers]
    for process in (*readers, writer):
        process.join()
    print(f"{shared[0] * PLACES} writes, {sum(n for n, _ in seen)} reads, {sum(n for _, n in seen)} of old bytes")
    return bool(sum(n for _, n in seen)) or writer.exitcode != 0 or shared[0] == 0


if __name__ == "__main__":
    sys.exit(main())
