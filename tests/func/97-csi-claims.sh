#!/usr/bin/env bash
# A class with `writable` makes a marked prefix a claim, DeleteVolume removes that and nothing else; a snapshot shows its version.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 1 --files 5
csi_python <<'PY'
p = plugin()
out = T + "/outputs"
os.makedirs(out)
caps = [capability()]
def create(name, source=None, gib=1, **parameters):
    return p.call("CreateVolume", name=name, volume_capabilities=caps, parameters=parameters, volume_content_source=source,
                  capacity_range=pb.CapacityRange(required_bytes=gib << 30)).volume
delete = lambda id: p.call("DeleteVolume", volume_id=id)
context = lambda v: dict(v.volume_context)
def tree():
    return sorted(os.path.relpath(f, out) for f in files(out))
# --- a claim that is written to
claim = dict(uri="file://" + out, writable="true", cache=f"ssd:{T}/class=1GiB")
v = create("pvc-1", **claim)
expect("its own uri", context(v)["uri"], f"file://{out}/pvc-1")
expect("its own cache", context(v)["cache"], f"ssd:{T}/class/pvc-1=1GiB")
expect("the same again", create("pvc-1", **claim), v)
refused("ALREADY_EXISTS", "made already", create, "pvc-1", gib=2, **claim)
refused("ALREADY_EXISTS", "made already", create, "pvc-1", **claim | {"memory": "1GiB"})
def fits(id, **kw):
    answer = p.call("ValidateVolumeCapabilities", volume_id=id, volume_capabilities=[capability(**kw)])
    return answer.message if not answer.HasField("confirmed") else len(answer.confirmed.volume_capabilities)
expect("what fits it", [fits("pvc-1"), fits("pvc-1", mode="MULTI_NODE_MULTI_WRITER")], [1, 1])
expect("what does not", ["block" in fits("pvc-1", block=True), "ext4" in fits("pvc-1", fs_type="ext4")], [True, True])
refused("NOT_FOUND", "volume other", fits, "other")
group = capability(mode="MULTI_NODE_MULTI_WRITER", group="4242") # ReadWriteMany
p.stage("pvc-1", cap=group, **context(v))
target = p.publish("pvc-1", "pod", cap=group)
open(target + "/result", "w").write("done")
expect("group", os.stat(target + "/result").st_gid, 4242)
ro = p.publish("pvc-1", "reader", readonly=True, cap=group)
refused("ALREADY_EXISTS", "for writing", p.publish, "pvc-1", "pod", readonly=True, cap=group)
try:
    open(ro + "/no", "w")
    raise SystemExit("a read-only target was written to")
except OSError:
    pass
for pod in ("pod", "reader"):
    p.unpublish("pvc-1", pod)
p.unstage("pvc-1")
expect("stored", open(out + "/pvc-1/result").read(), "done")
# --- only what was made and marked goes
os.makedirs(out + "/pvc-2"); open(out + "/pvc-2/mine", "w").write("precious")
refused("FAILED_PRECONDITION", "did not make", create, "pvc-2", **claim)
delete("pvc-2")
delete("never-heard-of")
create("pvc-3", **claim)
open(out + "/pvc-3/f", "w").close()
mark = out + "/.sampan-volumes/pvc-3.json"
text = open(mark).read()
open(mark, "w").write(text.replace("pvc-3", "pvc-x"))
refused("FAILED_PRECONDITION", "its mark", delete, "pvc-3")
os.unlink(mark)
refused("FAILED_PRECONDITION", "its mark", delete, "pvc-3")
expect("nothing went", os.path.exists(out + "/pvc-3/f"), True)
open(mark, "w").write(text)
expect("listed", [e.volume.volume_id for e in p.call("ListVolumes").entries], ["pvc-1", "pvc-3"])
p.kill(); p.start()
delete("pvc-3"); delete("pvc-1"); delete("pvc-1")
expect("the rest", tree(), ["pvc-2/mine"])
# --- a set that is read: a record and nothing else
read = dict(uri="file://" + src)
before = files(src)
v = create("train", **read)
page = p.call("ListVolumes", max_entries=1)
refused("ABORTED", "starting_token", p.call, "ListVolumes", starting_token="elsewhere")
refused("INVALID_ARGUMENT", "uri: missing", create, "x")
refused("OUT_OF_RANGE", "no range", p.call, "CreateVolume", name="x", volume_capabilities=caps, parameters=read,
        capacity_range=pb.CapacityRange(required_bytes=2, limit_bytes=1))
expect("capacity", p.call("GetCapacity", parameters=read | {"cache": f"ssd:{T}/x=1MiB"}).available_capacity, 1 << 20)
# --- a snapshot: the version as it is now
s = p.call("CreateSnapshot", source_volume_id="train", name="snap").snapshot
expect("the same again", p.call("CreateSnapshot", source_volume_id="train", name="snap").snapshot, s)
refused("NOT_FOUND", "volume other", p.call, "CreateSnapshot", source_volume_id="other", name="snap2")
open(src + "/added-later", "w").write("new")
before = sorted(before + [src + "/added-later"])
source = pb.VolumeContentSource(snapshot=pb.VolumeContentSource.SnapshotSource(snapshot_id="snap"))
refused("NOT_FOUND", "snapshot none", create, "y", source=pb.VolumeContentSource(
    snapshot=pb.VolumeContentSource.SnapshotSource(snapshot_id="none")), **read)
old = create("old", source=source, **read)
p.stage("old", **context(old)); p.stage("train", **context(v))
many = capability(mode="MULTI_NODE_READER_ONLY") # ReadOnlyMany
expect("the old version", os.path.exists(p.publish("old", "pod", cap=many) + "/added-later"), False)
expect("the new one", os.path.exists(p.publish("train", "pod") + "/added-later"), True)
for volume in ("old", "train"):
    p.unpublish(volume, "pod"); p.unstage(volume)
p.call("DeleteSnapshot", snapshot_id="snap"); p.call("DeleteSnapshot", snapshot_id="snap")
delete("old"); delete("train")
expect("the set", files(src), before)
PY
nothing_of_csi
