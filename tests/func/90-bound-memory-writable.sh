#!/usr/bin/env bash
# A writable mount stays below --memory while 1000 files are open and written at once, and while many wait for content
# that is only in the store.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/s3mem.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
ulimit -n 2048 2>/dev/null || skip "no 2048 open files here"
start_s3mem
export MNT STORE
cat >"$T/use.py" <<'PY'
"""use.py write|read PID: 1000 files, the first 40 of 5 MiB; prints the most that PID had resident meanwhile."""
import concurrent.futures, os, sys, threading, time, urllib.request
FILES, BIG, MIB = 1000, 40, 1 << 20
most, over = 0, threading.Event()

def content(i):
    return bytes([i % 251]) * (5 * MIB if i < BIG else 3000)

def look():
    lines = open(f"/proc/{sys.argv[2]}/status").read().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon", "RssShmem")))

def watch():
    global most
    while not over.wait(0.02):
        most = max(most, look())

def path(i):
    return f"{os.environ['MNT']}/f{i}"

def write(pool):
    fds = [os.open(path(i), os.O_CREAT | os.O_WRONLY) for i in range(FILES)]
    for i, n in enumerate(pool.map(lambda i: os.write(fds[i], content(i)), range(FILES))):
        assert n == len(content(i)), (i, n)
    list(pool.map(os.close, fds))

def read(pool):
    os.listdir(os.environ["MNT"])
    urllib.request.urlopen(f"{os.environ['STORE']}/_set?late=200").read()  # so that all wait at once
    for i, got in enumerate(pool.map(lambda i: open(path(i), "rb").read(), range(BIG))):
        assert got == content(i), i

threading.Thread(target=watch, daemon=True).start()
with concurrent.futures.ThreadPoolExecutor(64) as pool:
    {"write": write, "read": read}[sys.argv[1]](pool)
over.set()
print(max(most, look()))
PY
used() { # write|read
    local most
    most=$("$PYTHON" "$T/use.py" "$1" "$(daemon_pid)")
    echo "$1: at most $most bytes resident"
    case "$S" in *asan*|*tsan*) ;; *) at_most "resident ($1)" "$most" $((96 << 20)) ;; esac
}
set="minio://${STORE#http://}/bench/out"
mount_writable "$set" --memory 96MiB --commit background
used write
unmount
mount_writable "$set" --memory 96MiB --cache "ssd:$T/other=1GiB"
used read
unmount
