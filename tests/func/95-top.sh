#!/usr/bin/env bash
# `sampan top` tells the same of a mount and of the server that speaks for it; on a terminal it fills the
# screen, ends at `q`, and leaves the terminal as it was.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 2 --files 10
mount_set "file://$SRC"
start_serve
url="http://127.0.0.1:$PORT"
cat "$MNT"/*/* >/dev/null
for of in "$MNT" "" "$url --token-file $T/token"; do
    # shellcheck disable=SC2086
    sampan top $of --count 1 --interval 50ms --json >"$T/top"
    expect "lines of '$of'" "$(wc -l <"$T/top")" 1
    expect "mount of '$of'" "$(field mounts.0.mountpoint <"$T/top")" "$MNT"
    expect "samples of '$of'" "$(field mounts.0.set.samples <"$T/top")" 20
done
sampan top "$MNT" --count 3 --interval 20ms >"$T/top"
expect "lines" "$(grep -c "$MNT" "$T/top")" 3
expect "lines at all" "$(wc -l <"$T/top")" 4
refused 4 "401.*token" sampan top "$url" --count 1
refused 3 "no mount" sampan top "$T/src" --count 1
refused 2 "--interval" sampan top --interval 0s
refused 2 "--token-file: goes with the URL of a runtime server" sampan top "$MNT" --count 1 --token-file "$T/token"
refused 2 "--ca-file: goes with the URL of a runtime server" sampan top --count 1 --ca-file /dev/null
SAMPAN_TOKEN_FILE=$T/token sampan top "$MNT" --count 1 --interval 50ms >"$T/top" # as of a server that runs here

"$PYTHON" - "$S" "$url" "$T/token" <<'PY' || fail "the screen is not what it should be"
import os, pty, select, signal, subprocess, sys, termios
program, url, token = sys.argv[1:]
master, terminal = pty.openpty()
termios.tcsetwinsize(terminal, (24, 100))
before = termios.tcgetattr(terminal)

def run(end):
    child = subprocess.Popen([program, "top", url, "--token-file", token, "--interval", "50ms"],
                             stdin=terminal, stdout=terminal, stderr=terminal)
    seen, asked = b"", False
    while b"\x1b[?25h\x1b[?1049l" not in seen:
        assert select.select([master], [], [], 30)[0], seen
        seen += os.read(master, 65536)
        if not asked and seen.count(b"\x1b[H") >= 2:
            asked = True
            end(child)
    assert seen.startswith(b"\x1b[?1049h\x1b[?25l") and b"q ends" in seen and b"cached" in seen, seen
    code = child.wait(timeout=300)
    assert termios.tcgetattr(terminal) == before
    return code

assert run(lambda child: os.write(master, b"q")) == 0
assert run(lambda child: child.send_signal(signal.SIGINT)) == 130
PY
stop_serve
unmount
