#!/usr/bin/env bash
# On a terminal progress is one line that holds percent, rate and time left, with a bar as wide as they leave room for.
. "$SAMPAN_TESTS/lib/common.sh"
make_set --classes 10 --files 40
"$PYTHON" - "$SRC" "$T" <<'PY' || fail "not as wide as the terminal"
import fcntl, os, pty, re, shutil, struct, sys, termios

def frames(width):
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        os.execv(os.environ["SAMPAN"], ["sampan", "sync", "file://" + sys.argv[1], "file://" + sys.argv[2] + "/copy", "--bwlimit", "%d" % size])
    said = b""
    try:
        while more := os.read(fd, 4096):
            said += more
    except OSError:  # its end is closed
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, said
    shutil.rmtree(sys.argv[2] + "/copy")
    return [f for f in said.decode().split("\r\x1b[K")[1:-1] if f]

size = sum(os.path.getsize(os.path.join(at, f)) for at, _, files in os.walk(sys.argv[1]) for f in files)
for width in 20, 40, 80, 200:
    seen = frames(width)
    assert max(map(len, seen)) < width, (width, seen)
    amid = [f for f in seen if re.search("objects [1-9][0-9]* of 400", f) and "400 of" not in f]
    assert amid, (width, seen)
    for frame in amid:
        assert ("%" in frame) == (width >= 40), (width, frame)
        assert frame.endswith(" left") == (width >= 80), (width, frame)
        assert bool(re.match("[#.]{5,24} ", frame)) == (width >= 80), (width, frame)
PY
