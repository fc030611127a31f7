#!/usr/bin/env bash
# Out of descriptors while files are written: who writes is told by one of his calls or has his bytes stored whole, the
# daemon lives, and all is well once there are some again.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
need_command prlimit
use_store # use_s3
mount_writable "$STORE/out" --commit background
cat >"$T/writer.py" <<'PY'
import os, sys
folder, count = sys.argv[1], int(sys.argv[2])
done = []
for i in range(count):
    name, fd = "f%03d" % i, -1
    try:
        fd = os.open(f"{folder}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        os.write(fd, name.encode() * 1000)
        os.fsync(fd)
        os.close(fd)
        done.append(name)
    except OSError as e:
        print(name, e.strerror, file=sys.stderr)
        if fd >= 0:
            try:
                os.close(fd)
            except OSError:
                pass
print("\n".join(done))
PY
mkdir "$MNT/full" "$MNT/well"
pid=$(daemon_pid)
soft=$(prlimit --pid "$pid" --nofile --output SOFT --noheadings)
prlimit --pid "$pid" --nofile="$(($(find "/proc/$pid/fd" -mindepth 1 | wc -l) + 1))":
"$PYTHON" "$T/writer.py" "$MNT/full" 40 >"$T/full" 2>"$T/refused"
prlimit --pid "$pid" --nofile="$soft":
echo "without descriptors: $(grep -c . "$T/full" || true) written, $(grep -c . "$T/refused" || true) refused: $(sort -u "$T/refused" | head -1)"
grep -q . "$T/refused" || fail "nobody was refused: this tests nothing"
expect "written once there are some" "$("$PYTHON" "$T/writer.py" "$MNT/well" 40 | grep -c .)" 40
sampan flush "$MNT"
expect "daemon" "$(daemon_pid)" "$pid"
for name in $(cat "$T/full"); do
    stored cat "out/full/$name" | cmp - "$MNT/full/$name" || fail "$name: the store has something else"
    expect "bytes of $name" "$(wc -c <"$MNT/full/$name")" 4000
done
unmount
nothing_left
