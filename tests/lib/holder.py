"""A third holder of a mount: takes device, state and listener from its owner, says so, and when told revives the mount.

  holder.py SOCKET SAMPAN HELD GO       makes the file HELD when it has them, revives when somebody writes to the pipe GO
"""
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
