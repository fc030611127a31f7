#!/usr/bin/env bash
# Somebody unmounts a set's mount point while a pod has the volume: the next pod gets it, from the owner that goes on.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 1 --files 5
csi_python <<'PY'
p = plugin()
uri = "file://" + src
p.stage("v", uri=uri)
p.publish("v", "pod")
[point] = [m for m in mounts() if "/mnt/" in m]
subprocess.run(["umount", "-l", point], check=True)
p.publish("v", "pod-2")
expect("mounts", len([m for m in mounts() if m == point]), 1)
for pod in ("pod", "pod-2"):
    expect("samples", len(os.listdir(p.target("v", pod) + "/class-000")), 5)
for pod in ("pod", "pod-2"):
    p.unpublish("v", pod)
p.unstage("v")
expect("mounts left", mounts(), [])
PY
nothing_of_csi
