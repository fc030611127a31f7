#!/usr/bin/env bash
# A volume is unstaged although another namespace of mounts has a copy of its mount: its processes end, nothing is left.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 1 --files 5
cat >"$T/other.py" <<'PY'
# A process that was started while the volume was mounted: its namespace has all mounts, and follows none.
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x20000) or libc.mount(None, b"/", None, 0x40000 | 0x4000, None):
    raise OSError(ctypes.get_errno(), "unshare")
print("up", flush=True)
sys.stdin.read()
PY
csi_python <<'PY'
p = plugin()
uri = "file://" + src
p.stage("v", uri=uri)
p.publish("v", "pod")
other = subprocess.Popen([sys.executable, T + "/other.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
expect("the other", other.stdout.readline(), "up\n")
p.unpublish("v", "pod")
p.unstage("v")
expect("mounts", mounts(), [])
expect("the other runs on", other.poll(), None)
other.stdin.close()
other.wait(30)
PY
nothing_of_csi
