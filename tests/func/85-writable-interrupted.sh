#!/usr/bin/env bash
# Whoever waits for a store that does not answer can be interrupted and killed; a timer does not make a close()
# fail. What was written stays pending, and is stored when the store answers.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_writable_store # use_s3 behind the proxy
mount_writable "$STORE/out"
echo old >"$MNT/read-me"
faults "status=503 key=stuck
status=503 key=read-me"
# The system call by hand: Python's own asks again after EINTR.
cat >"$T/closer.py" <<'PY'
import ctypes, errno, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
rings = 0
def ring(*_):
    global rings
    rings += 1
signal.signal(signal.SIGALRM, ring)
signal.signal(signal.SIGINT, lambda *_: None)
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, b"kept")
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
failed = libc.fsync(fd)
signal.setitimer(signal.ITIMER_REAL, 0)
print("fsync:", errno.errorcode[ctypes.get_errno()] if failed else "done", flush=True)
os.kill(os.getpid(), signal.SIGTERM) # its way out closes the file
PY
gone() { ! kill -0 "$1" 2>/dev/null; }
waiting() { [ "$(status requests.waiting)" -ge 1 ] && [ "$(pending files)" -ge "$1" ]; }

"$PYTHON" "$T/closer.py" "$MNT/stuck-1" >"$T/closer.out" &
closer=$!
until_true 20 waiting 1 || fail "nobody waits for the store"
sleep 0.3 # its timer rings
gone $closer && fail "a timer ended its wait: $(cat "$T/closer.out")"
kill -INT $closer
wait $closer || true
expect "what it was told" "$(cat "$T/closer.out")" "fsync: EINTR"

cat >"$T/writer.py" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, bytes(3000))
os.close(fd)
PY
"$PYTHON" "$T/writer.py" "$MNT/stuck-2" &
writer=$!
until_true 20 waiting 2 || fail "the second writer does not wait"
kill -9 $writer
until_true 5 gone $writer || fail "a killed writer still waits"

mount_writable_at 2 "$STORE/out"
cat "$T/mnt-2/read-me" >"$T/read" 2>&1 &
reader=$!
fetching() { [ "$(sampan status "$T/mnt-2" --json | field requests.waiting)" -ge 1 ]; }
until_true 20 fetching || fail "the reader does not wait for the store"
kill -9 $reader || fail "the reader waits no more: $(cat "$T/read")"
until_true 5 gone $reader || fail "a killed reader still waits"

faults
sampan flush "$MNT"
expect "pending" "$(pending files)" 0
at_least "given up" "$(status requests.given_up)" 1
expect "what was kept" "$(stored cat out/stuck-1)" kept
expect "bytes of the killed writer" "$(stored cat out/stuck-2 | wc -c)" 3000
expect "another node reads again" "$(cat "$T/mnt-2/read-me")" old
sampan umount "$T/mnt-2"
unmount
