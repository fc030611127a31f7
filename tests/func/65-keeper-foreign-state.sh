#!/usr/bin/env bash
# A state that is none of ours, half-written, of another layout or of another size is refused by daemon and keeper, in words.
. "$SAMPAN_TESTS/lib/common.sh"
"$PYTHON" - "$S" "$(dirname "$S")/sampan-keeper" <<'PY'
import fcntl, os, socket, subprocess, sys
sampan, keeper = sys.argv[1:]
GROWN = 1 << 20
def state(content, size=GROWN, seal=True):
    fd = os.memfd_create("state", os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    os.ftruncate(fd, size)
    if seal:
        fcntl.fcntl(fd, 1033, 2 | 4)
    return fd
cases = {
    "unsealed": state(b"sampank\0" + b"\1\0\0\0", seal=False),
    "empty": state(b"", 0),
    "short": state(b"sampank\0", 100),
    "foreign": state(os.urandom(4096)),
    "half-written": state(bytes(8) + b"\1\0\0\0\4\0\0\0"),
    "another layout": state(b"sampank\0" + b"\2\0\0\0\4\0\0\0"),
    "sizes": state(b"sampank\0" + b"\1\0\0\0" + b"\xff" * 4084),
}
for name, fd in cases.items():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kept = f"channel={theirs.fileno()},state={fd},dev=-1,listen=-1,report=-1,refuse=0"
    a = subprocess.run([sampan, "mount", "file:///x", "/y"], env=os.environ | {"SAMPAN_KEPT": kept}, timeout=300,
                       pass_fds=[fd, theirs.fileno()], capture_output=True, text=True)
    program = os.open(sampan, os.O_PATH)
    words = f"program={program},state={fd},dev=-1,listen=-1,report=-1,channel=-1,life=-1,turn=-1"
    b = subprocess.run([keeper, words, "sampan"], pass_fds=[fd, program], capture_output=True, text=True, timeout=300)
    print(name, a.returncode, a.stderr.strip(), "|", b.returncode, b.stderr.strip())
    assert a.returncode == 1 and b.returncode == 1, name
    assert a.stderr.startswith("sampan mount: ") and a.stderr.count("\n") == 1, name
    assert b.stderr.startswith("sampan-keeper: ") and b.stderr.count("\n") == 1, name
alone = subprocess.run([keeper], capture_output=True, text=True)
assert alone.returncode == 2 and "sampan mount" in alone.stderr, alone
PY
nothing_left
