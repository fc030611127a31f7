#!/usr/bin/env bash
# The stage's own disk fails with EIO, in its journal or its staged files, at writes or at syncs: the writer is told by
# one of his calls, what was acknowledged stays, the store gets nothing half-done, and status and doctor say so.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
cat >"$T/writer.py" <<'PY'
import json, os, subprocess, sys
sampan, mnt, store, broken, calls = sys.argv[1:]
SIZE = 300_000
def call(*words, **more):
    return subprocess.run([sampan, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, text=True, **more)
def disk():
    return json.loads(call("status", mnt, "--json").stdout)["cache"]["tiers"][0]
def content(name, letter):
    return (name + letter).encode() * (SIZE // len(name + letter))
def refused(what, steps):
    """One of the steps must fail, and with EIO; those after it are done all the same."""
    told = []
    for step in steps:
        try:
            step()
        except OSError as e:
            assert e.errno == 5, (what, e)
            told.append(e)
    assert told, what + ": nobody was told"
def write_whole(path, data, flags):
    fd = []
    def end():
        for _ in range(len(fd)):
            os.close(fd.pop())
    return [lambda: fd.append(os.open(path, flags)), lambda: fd and os.pwrite(fd[0], data, 0),
            lambda: fd and os.fsync(fd[0]), end]

for name in ("old", "open"):
    with open(f"{mnt}/{name}", "wb") as f:
        f.write(content(name, "-first"))
assert call("flush", mnt).returncode == 0
held = os.open(f"{mnt}/open", os.O_RDWR)
os.pwrite(held, b"acknowledged", 0)
os.fsync(held)
first = {"old": content("old", "-first"), "open": b"acknowledged" + content("open", "-first")[12:]}
assert call("flush", mnt).returncode == 0
assert disk()["state"] == "ok", disk()

open(broken, "w").close()
if calls != "open":
    refused("a file that is open", [lambda: os.pwrite(held, content("open", "-second"), 0), lambda: os.fsync(held)])
refused("a file that is new", write_whole(f"{mnt}/new", content("new", "-second"), os.O_CREAT | os.O_WRONLY))
refused("a file that was stored", write_whole(f"{mnt}/old", content("old", "-second"), os.O_WRONLY))
state = disk()
assert state["state"] == "failed" and "/stage" in state["why"], state
doctor = call("doctor", mnt)
assert doctor.returncode != 0 and "its disk fails" in doctor.stdout, doctor.stdout
assert os.listdir(mnt), "names are gone"

os.unlink(broken)
# Whole contents alone are in the store: of before, or of the write that was refused at its sync.
assert call("flush", mnt).returncode == 0
for name in os.listdir(store):
    data = open(f"{store}/{name}", "rb").read()
    assert name in ("old", "open", "new"), name
    second = content(name, "-second")
    whole = [first.get(name, b""), second, second + first.get(name, b"")[len(second):]]
    assert data in whole, (name, len(data), data[:40])
    assert open(f"{mnt}/{name}", "rb").read() == data, name
for name in ("old", "open"):
    assert os.path.exists(f"{store}/{name}"), name
# As before, once the disk writes again.
os.pwrite(held, b"once more", 0)
os.fsync(held)
os.close(held)
for step in write_whole(f"{mnt}/new", content("new", "-third"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC):
    step()
assert call("flush", mnt).returncode == 0
state = disk()
assert (state["state"], state["why"]) == ("ok", ""), state
assert open(f"{store}/new", "rb").read() == content("new", "-third")
assert open(f"{store}/open", "rb").read(9) == b"once more"
PY
for round in 'journal.db-wal write close' 'journal.db-wal write background' 'journal.db-wal sync background' \
    '0000* write close' '0000* write background' '0000* sync background' '0000* open background'; do
    read -r files calls commit <<<"$round"
    echo "--- $round"
    rm -rf "$CACHE" "$SRC"
    mkdir -p "$SRC"
    meddle_args=()
    only_files "$files"
    mount_breakable "$calls" EIO --writable --commit "$commit"
    "$PYTHON" "$T/writer.py" "$S" "$MNT" "$SRC" "$T/broken" "$calls" || fail "$round"
    unmount
    at_least "refused: $round" "$(refusals)" 1
done
nothing_left
