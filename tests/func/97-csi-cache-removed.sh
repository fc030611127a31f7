#!/usr/bin/env bash
# Whoever removes the cache of a volume that can be written may lose what it has not stored: it is not unstaged before the
# node's administrator says so, and until then nobody is told that there is no such volume.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 1 --files 2
csi_python <<'PY'
import shutil
p = plugin()
p.stage("w", uri="file://" + src, writable="true")
p.publish("w", "pod")
shutil.rmtree(p.root + "/cache")
p.unpublish("w", "pod")
for _ in range(2):
    refused("INTERNAL", "--lazy unmounts anyway", p.unstage, "w")
mnt, = mounts()
subprocess.run([SAMPAN, "umount", "--lazy", mnt], check=True)
p.unstage("w")
PY
nothing_of_csi
