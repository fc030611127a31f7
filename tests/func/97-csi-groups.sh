#!/usr/bin/env bash
# A set that is written is of its pods' group: who is in it may make files there, whoever comes without one has the same mount, another group is told why it has to wait.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
mkdir "$T/out"
chmod 755 "$T" "$T/out"
csi_python <<'PY'
import json
p = plugin()
out = dict(uri="file://" + T + "/out", writable="true")
seven, eight = capability(group="7007"), capability(group="8008")
def writes(target, name, group):
    """As a user of no privilege in that group does."""
    return subprocess.run(["setpriv", "--reuid", "12345", "--regid", str(group), "--clear-groups", "--bounding-set", "-all",
                           "sh", "-c", 'cd "$0" && mkdir "$1" && echo text >"$1/file"', target, name], stderr=subprocess.DEVNULL).returncode == 0
def root(target):
    st = os.stat(target)
    return f"{st.st_mode & 0o7777:o} {st.st_gid}"
p.stage("one", cap=seven, **out)
one = p.publish("one", "pod-1", cap=seven)
expect("root", root(one), "2775 7007")
expect("in the group", writes(one, "a", 7007), True)
expect("it is handed down", os.stat(one + "/a/file").st_gid, 7007)
expect("not in the group", writes(one, "b", 8008), False)
said = refused("RESOURCE_EXHAUSTED", "fsGroup 8008", p.stage, "two", cap=eight, **out)
expect("and whose it is", "fsGroup 7007" in said, True)
p.stage("two", **out)
two = p.publish("two", "pod-2")
expect("one without a group sees the same", sorted(os.listdir(two)), ["a"])
expect("mounts", len([m for m in mounts() if "/state/mnt/" in m]), 1)
# What the pods change at the root stays, whoever serves them.
os.chmod(one, 0o2770)
p.kill()
# The plugin of before gave each group a set of its own.
folder = p.state + "/sets/"
record = folder + os.listdir(folder)[0]
with open(record) as f:
    text = f.read()
older = json.loads(text)
older["identity"] = older["identity"].replace("writable\n", "writable gid=7007\n")
expect("the record is as it was", older.pop("given"), True)
with open(record, "w") as f:
    json.dump(older, f)
p.start()
p.stage("three", cap=seven, **out)
expect("sets", len(os.listdir(folder)), 1)
expect("root", root(one), "2770 7007")
for volume, pod in (("one", "pod-1"), ("two", "pod-2"), ("three", None)):
    if pod:
        p.unpublish(volume, pod)
    p.unstage(volume)
p.stage("two", cap=eight, **out)
expect("the other group's turn", root(p.publish("two", "pod-2", cap=eight)).split()[1], "8008")
p.unpublish("two", "pod-2"); p.unstage("two")
PY
nothing_of_csi
