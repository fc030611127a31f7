"""Eats the memory of a cgroup bit by bit until the kernel kills one of those who eat; then they go.

  eat_memory.py GROUP

Each takes so little that whoever has a higher oom_score_adj than they is killed before any of them.
"""
import os
import signal
import sys

BIT = 16 << 20


def eater(group):
    """Its pid, and a pipe that has a byte when it has eaten and ends when it is killed."""
    out, told = os.pipe()
    pid = os.fork()
    if pid:
        os.close(told)
        return pid, out
    with open(f"{group}/cgroup.procs", "w", encoding="ascii") as f:
        f.write("0")
    eaten = bytearray(os.urandom(4096) * (BIT // 4096))
    os.write(told, b"x")
    while eaten:
        signal.pause()
    return None


def main():
    eaters = []
    while all(os.waitpid(pid, os.WNOHANG) == (0, 0) for pid, _ in eaters):
        if len(eaters) == 100:
            sys.exit("100 of them, and none was killed")
        eaters.append(eater(sys.argv[1]))
        os.read(eaters[-1][1], 1)
    for pid, _ in eaters:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # the one that was killed


main()
