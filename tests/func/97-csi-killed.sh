#!/usr/bin/env bash
# The plugin is killed, then keeper and owner at once, then all three: readers go on, or the mounts come back with their binds.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 2 --files 10
csi_python <<'PY'
p = plugin()
uri = "file://" + src
p.stage("v", uri=uri)
target = p.publish("v", "pod")
def same():
    return subprocess.run(["diff", "-r", src, target], capture_output=True).returncode == 0
def serving():
    mnt = [m for m in mounts() if "/state/mnt/" in m][0]
    done = subprocess.run([SAMPAN, "status", mnt, "--json"], capture_output=True, text=True, timeout=300)
    s = json.loads(done.stdout) if done.returncode == 0 else {}
    return (s.get("pid"), s.get("keeper_pid")) if s.get("state") == "ready" else None
pids = serving()
p.kill()
expect("content without the plugin", same(), True)
p.start()
p.stage("v", uri=uri); p.publish("v", "pod")
expect("adopted, not mounted again", serving(), pids)
expect("mounts", len(mounts()), 2)
def holds():
    "the plugin holds the device"
    found = 0
    for fd in os.listdir(f"/proc/{p.process.pid}/fd"):
        try:
            found += os.readlink(f"/proc/{p.process.pid}/fd/{fd}") == "/dev/fuse"
        except OSError:
            pass
    return found == 1
until(holds)
held = os.open(os.path.join(target, sorted(os.listdir(target))[0]), os.O_RDONLY)
for round in range(2):
    pids = serving()
    os.kill(pids[1], signal.SIGSTOP); os.kill(pids[0], signal.SIGSTOP)  # neither starts the other again
    os.kill(pids[1], signal.SIGKILL); os.kill(pids[0], signal.SIGKILL)
    expect("content after keeper and owner were killed", same(), True)
    until(lambda: serving() and serving() != pids)
    os.fstat(held)  # the same mount: what was open stays open
os.close(held)
pids = serving()
p.kill()
os.kill(pids[1], signal.SIGSTOP); os.kill(pids[0], signal.SIGSTOP)
os.kill(pids[1], signal.SIGKILL); os.kill(pids[0], signal.SIGKILL)
def answers(path):
    "what the kernel remembers of a mount outlives its holders; the size of it is always asked for"
    try:
        return path in mounts() and os.statvfs(path).f_blocks > 0
    except OSError:
        return False
until(lambda: not answers(target))
p.start()
until(lambda: answers(target))
expect("content of the new mount", same(), True)
expect("other processes serve it", serving() not in (None, pids), True)
expect("mounts", len(set(mounts())), 2)
p.unpublish("v", "pod"); p.unstage("v")
PY
nothing_of_csi
