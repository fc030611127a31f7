#!/usr/bin/env bash
# A volume of several sources shows them joined into one set, on a node, from a class and as a snapshot; one that is wrong is named.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 1 --files 5
csi_python <<'PY'
p = plugin()
more = T + "/more"
os.makedirs(more)
open(more + "/one", "w").write("1")
def joined(*sources):
    return json.dumps({"sources": list(sources)}, indent=1)
both = joined({"uri": "file://" + src, "at": "train/"}, {"uri": "file://" + more, "at": "val/extra"})
def same(target):
    return [subprocess.run(["diff", "-r", a, b]).returncode for a, b in ((src, target + "/train"), (more, target + "/val/extra"))] == [0, 0]
p.stage("v", uri=both)
target = p.publish("v", "pod", uri=both)
expect("content", same(target), True)
expect("at the top", sorted(os.listdir(target)), ["train", "val"])
# The same sources are the same mount, whoever names them; others are not.
p.stage("w", uri=both)
p.publish("w", "pod")
expect("mounts", len([m for m in mounts() if "/state/mnt/" in m]), 1)
p.unpublish("w", "pod"); p.unstage("w")
# A plugin that starts anew adopts it.
p.kill(); p.start()
p.stage("v", uri=both)
expect("content", same(target), True)
p.unpublish("v", "pod"); p.unstage("v")
# A class of several sources, and a snapshot of it.
create = lambda name, uri, source=None, **more: p.call("CreateVolume", name=name, volume_capabilities=[capability()], parameters={"uri": uri} | more,
                                                       volume_content_source=source).volume
cache = f"ssd:{T}/class=1GiB" # where no version of it is yet
made = dict(create("train", both, cache=cache).volume_context)
p.call("CreateSnapshot", source_volume_id="train", name="snap")
open(more + "/two", "w").write("2")
old = dict(create("old", both, pb.VolumeContentSource(snapshot=pb.VolumeContentSource.SnapshotSource(snapshot_id="snap")), cache=cache).volume_context)
p.stage("train", **made); p.stage("old", **old)
expect("now", sorted(os.listdir(p.publish("train", "pod") + "/val/extra")), ["one", "two"])
expect("then", os.listdir(p.publish("old", "pod") + "/val/extra"), ["one"])
for volume in ("train", "old"):
    p.unpublish(volume, "pod"); p.unstage(volume); p.call("DeleteVolume", volume_id=volume)
p.call("DeleteSnapshot", snapshot_id="snap")
# What is wrong is said by its place, and nothing stays.
bad = "INVALID_ARGUMENT"
refused(bad, "sources[1]: want a URI", p.stage, "x", uri=joined({"uri": "file://" + src}, {"uri": "elsewhere"}))
refused(bad, "sources[0]: a URI with a password", p.stage, "x", uri=joined({"uri": "s3://KEY:SECRET@bucket/x"}))
refused(bad, "one source alone", p.stage, "x", uri=both, writable="true")
refused(bad, "one source alone", create, "x", both, writable="true")
refused(bad, "not a place in the set", p.stage, "x", uri=joined({"uri": "file://" + src, "at": "../up"}))
refused("NOT_FOUND", "no such folder", p.stage, "x", uri=joined({"uri": "file://" + src}, {"uri": "file:///nonexistent/set", "at": "b"}))
PY
nothing_of_csi
