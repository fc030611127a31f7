#!/usr/bin/env bash
# Whoever holds device, state and listener as well can revive a mount after keeper and daemon were killed at once.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
need_root "descriptors are given to root alone"
make_set --classes 2 --files 10
mount_set "file://$SRC"
mkfifo "$T/go"
"$PYTHON" - "$CACHE/control.sock" "$S" "$T/held" "$T/go" <<'PY' &
import json, os, socket, struct, subprocess, sys
path, sampan, held, go = sys.argv[1:]
def call(request):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    text = json.dumps(request).encode()
    s.sendall(struct.pack("<I", len(text)) + text)
    head, fds, _, _ = socket.recv_fds(s, 4, 1)
    body = b""
    while len(body) < struct.unpack("<I", head)[0]:
        body += s.recv(65536)
    answer = json.loads(body)
    assert answer["ok"], answer
    return fds
fds = {which: call({"op": "descriptors", "which": which})[0] for which in ("dev", "state", "listen")}
open(held, "w").close()
open(go).read()
words = [word for which, fd in fds.items() for word in ("--" + which, str(fd))]
sys.exit(subprocess.run([sampan, "revive", *words], pass_fds=fds.values()).returncode)
PY
holder=$!
on_exit "kill $holder"
until_true 20 test -f "$T/held" || fail "the holder got no descriptors"
start_readers
keeper=$(keeper) daemon=$(life)
kill -STOP "$daemon"
kill -9 "$keeper" "$daemon"
until_true 10 no_daemon
echo >"$T/go"
wait $holder || fail "revive failed"
expect "restarts" "$(status restarts)" 1
[ "$(keeper)" != "$keeper" ] || fail "the same keeper"
kill_life
readers_ok
unmount
nothing_left
