#!/usr/bin/env bash
# With --host a mount outlives the plugin's container and image: it runs on copies, in the host's mounts and a cgroup of its own.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
unshare -pfm --mount-proc true 2>/dev/null || skip "no namespaces of processes can be made here"
if [ -z "${INSIDE:-}" ]; then # process 1 of a namespace of its own stands for the host
    export INSIDE=1 SAMPAN_TEST_TOKEN TMPDIR
    unshare -pfm --mount-proc --propagation private "$0"
    exit
fi
leave_foreign_mounts
make_set --classes 1 --files 5
mount --bind "$T" "$T"
mount --make-shared "$T"
mkdir "$T/image"
cp "$(dirname "$SAMPAN")"/sampan{,-keeper,-csi} "$T/image/"
csi_python <<'PY'
uri = "file://" + src
p = plugin(args=["--host"], bin=T + "/image", around=["unshare", "-m", "--propagation", "unchanged"])
p.stage("v", uri=uri)
target = p.publish("v", "pod")
def same():
    return subprocess.run(["diff", "-r", src, target], capture_output=True).returncode == 0
def owner():
    for f in files(os.environ["SAMPAN_RUN_DIR"]):
        if f.endswith(".json"):
            return json.load(open(f))
expect("the host sees it", same(), True)
o = owner()
exe = os.readlink(f"/proc/{o['pid']}/exe")
expect("runs on a copy", exe.startswith(p.state + "/bin/"), True)
maps = {line.split()[-1] for line in open(f"/proc/{o['pid']}/maps") if line.split()[-1].startswith("/")} if os.access(f"/proc/{o['pid']}/maps", os.R_OK) else set()
expect("so are its libraries", [m for m in maps if ".so" in m and not m.startswith(p.state)], [])
expect("mounts are the host's", os.stat(f"/proc/{o['pid']}/ns/mnt").st_ino if os.access(f"/proc/{o['pid']}/ns/mnt", os.R_OK) else
       os.stat("/proc/1/ns/mnt").st_ino, os.stat("/proc/1/ns/mnt").st_ino)
groups = open(f"/proc/{o['pid']}/cgroup").read()
if "/sampan-csi" not in groups:
    print("note: this machine gives no cgroup:", groups)
# The container is deleted, and its image.
p.kill()
import shutil
shutil.move(T + "/image", T + "/image-gone")
expect("without the plugin", same(), True)
os.kill(o["pid"], signal.SIGKILL)
expect("the keeper starts the copy again", same(), True)
until(lambda: owner()["pid"] != o["pid"])
# Another one comes: it adopts, and holds.
shutil.move(T + "/image-gone", T + "/image")
p.start()
p.stage("v", uri=uri)
expect("adopted", (same(), owner()["keeper_pid"]), (True, o["keeper_pid"]))
# Another version comes: the mount is handed over to it.
held = os.open(os.path.join(target, sorted(os.listdir(target))[0]), os.O_RDONLY)
exe = os.readlink(f"/proc/{owner()['pid']}/exe")
with open(T + "/image/sampan", "ab") as f:
    f.write(b"the next version")
p.kill(); p.start()
def handed_over():
    "another copy serves the mount"
    try:
        now = os.readlink(f"/proc/{owner()['pid']}/exe")
        return now.startswith(p.state + "/bin/") and now.split(" ")[0] != exe
    except FileNotFoundError: # it is just being replaced
        return False
until(handed_over)
expect("the same mount", (same(), os.fstat(held).st_ino > 0), (True, True))
os.close(held)
p.unpublish("v", "pod"); p.unstage("v")
PY
rm -rf "$T/csi/state/bin"
nothing_of_csi
