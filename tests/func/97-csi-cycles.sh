#!/usr/bin/env bash
# Volumes that come and go, alone and with others of their set, leave no mount, process, file or descriptor behind. (make bench ROWS=csi: 100 rounds.)
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 1 --files 5
csi_python <<'PY'
p = plugin()
other = T + "/other"
os.makedirs(other)
open(other + "/f", "w").close()
sets = {"a": dict(uri="file://" + src), "b": dict(uri="file://" + src, memory="128MiB"), "c": dict(uri="file://" + other), "w": dict(uri="file://" + other, writable="true")}
proc = f"/proc/{p.process.pid}"
def held():
    links = []
    for fd in os.listdir(proc + "/fd"):
        try:
            links.append(os.readlink(f"{proc}/fd/{fd}"))
        except FileNotFoundError:
            pass
    return sorted(l for l in links if not l.startswith(("socket:", "anon_inode:[pidfd]")))
def left():
    "what a round leaves"
    return [f for f in files(T) if "/csi/" in f and "/cache/" not in f and not f.endswith((".lock", "/csi.sock"))], mounts(), held()
def round():
    for v, attributes in sets.items():
        p.stage(v, **attributes)
    for v in sets:
        for pod in ("1", "2"):
            p.publish(v, pod)
    for v in sets:
        for pod in ("1", "2"):
            p.unpublish(v, pod)
        p.unstage(v)
round()
first = left()
expect("files and mounts", first[:2], ([], []))
for _ in range(5):
    round()
until(lambda: left() == first)
PY
nothing_of_csi
