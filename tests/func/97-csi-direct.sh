#!/usr/bin/env bash
# A pod whose volume says direct=true reads a warm set straight from its packs, though it sees nothing of the
# machine but its mount; the socket there tells all users where samples lie and does nothing else; it comes back after the
# daemon's death, and is gone with the volume. Other pods do not have it.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
use_loader
export NUMPY_PYTHON
make_set --classes 2 --files 10
cat >"$T/pod.py" <<'PY'
# What runs in the pod: it knows no register of mounts, and is not the daemon's user.
import errno
import fcntl
import json
import os
import socket
import struct
import sys

import sampan

mount, source, uid = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.environ["SAMPAN_RUN_DIR"] = sys.argv[4]


def ask(**request):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("packs.sock")
        text = json.dumps(request).encode()
        s.sendall(struct.pack("<I", len(text)) + text)
        head = s.recv(4, socket.MSG_WAITALL)
        return json.loads(s.recv(struct.unpack("<I", head)[0], socket.MSG_WAITALL))


def given(**request):
    """The descriptor that comes with the answer."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("packs.sock")
        text = json.dumps(request).encode()
        s.sendall(struct.pack("<I", len(text)) + text)
        return socket.recv_fds(s, 4, 1)[1][0]


def only_read(fd):
    """Nobody writes by it, nor by what it leads to: not even the node's root."""
    assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    assert len(os.pread(fd, 16, 0)) == 16
    for way in ("/proc/self/fd/%d" % fd, "/dev/fd/%d" % fd):
        try:
            os.open(way, os.O_RDWR)
        except OSError as e:
            assert e.errno == (errno.EACCES if uid else errno.EROFS), e
        else:
            raise AssertionError("opened for writing: " + os.readlink(way))


def read_all():
    loader = sampan.Loader(mount, "sequence", batch_size=4, format="raw", direct="only", tell_mount=False)
    seen = 0
    for batch in loader:
        for number, data in zip(batch.numbers, batch.images):
            with open(os.path.join(source, loader.path(int(number))), "rb") as f:
                assert data.tobytes() == f.read(), loader.path(int(number))
            seen += 1
    figures = loader.figures()
    assert 0 < seen <= figures["direct_samples"] and figures["mount_samples"] == 0, figures


if not uid:
    read_all()
first = os.path.join(*sorted((d, f) for d, _, names in os.walk(source) for f in names)[0])
os.chdir(os.path.join(mount, ".sampan/direct"))
os.setuid(uid)
only_read(given(op="extent", path=os.path.relpath(first, source)))
only_read(given(op="catalog"))
for op in ("clear", "shutdown", "descriptors", "set", "status", "warmup"):
    answer = ask(op=op)
    assert not answer["ok"] and answer["class"] == "denied", (op, answer)
assert ask(op="ping")["ok"] and ask(op="catalog")["ok"]
PY
csi_python <<'PY'
import socket
p = plugin()
uri = "file://" + src
nobody = os.path.join(T, "no-register")
os.mkdir(nobody)
def pod(target, uid):
    done = subprocess.run([os.environ["NUMPY_PYTHON"], os.path.join(T, "pod.py"), target, src, str(uid), nobody], stderr=subprocess.PIPE, text=True)
    expect("a pod of user %d" % uid, (done.returncode, done.stderr[-800:]), (0, ""))
p.stage("open", uri=uri, direct="true")
p.stage("plain", uri=uri)
direct = p.publish("open", "pod-1", uri=uri, direct="true")
plain = p.publish("plain", "pod-2", uri=uri)
expect("content", subprocess.run(["diff", "-r", src, direct]).returncode, 0)
expect("what a plain pod has", os.listdir(os.path.join(plain, ".sampan/direct")), [])
expect("what a direct pod has", os.listdir(os.path.join(direct, ".sampan/direct")), ["packs.sock"])
expect("not to be written to", os.access(os.path.join(direct, ".sampan/direct"), os.W_OK), False)
set_mount = [m for m in mounts() if "/state/mnt/" in m][0]
subprocess.run([os.environ["SAMPAN"], "warmup", set_mount, "--quiet"], check=True, stdout=subprocess.DEVNULL)
for uid in (0, 65534):
    pod(direct, uid)
def owner():
    return int(json.loads(subprocess.run([os.environ["SAMPAN"], "status", set_mount, "--json"], check=True, stdout=subprocess.PIPE).stdout)["pid"])
pid = owner()
os.kill(pid, signal.SIGKILL)
def answers():
    "the next owner has the socket, not one that is about to die"
    if owner() == pid:
        return False
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(os.path.join(p.state, "direct", os.path.basename(set_mount), "packs.sock")) == 0
until(answers)
pod(direct, 65534)
for _ in range(2):
    p.publish("open", "pod-1", uri=uri, direct="true")
with open("/proc/self/mountinfo", errors="surrogateescape") as table:
    shown = [line.split()[4] for line in table if "/.sampan/direct " in line and T in line]
expect("what is bound", shown, [direct + "/.sampan/direct"])
p.unpublish("open", "pod-1"); p.unstage("open")
p.unpublish("plain", "pod-2"); p.unstage("plain")
expect("left", mounts(), [])
PY
nothing_of_csi
