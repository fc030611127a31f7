#!/usr/bin/env bash
# A client that nobody here wrote stages, publishes, asks and undoes; volumes of one set share one mount; nothing is left.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 2 --files 10
csi_python <<'PY'
uri = "file://" + src
p = plugin(args=["--metrics", "127.0.0.1:0", "--inline-file", src])
def same(path):
    return subprocess.run(["diff", "-r", src, path]).returncode == 0
expect("name", p.call("GetPluginInfo").name, "csi.sampan.io")
expect("controller", [c.service.type for c in p.call("GetPluginCapabilities").capabilities], [1])
expect("ready", p.call("Probe").ready.value, True)
expect("node", p.call("NodeGetInfo").node_id, "node-a")
for _ in range(3):
    p.stage("one", uri=uri)
for _ in range(3):
    target = p.publish("one", "pod-1", uri=uri)
expect("content", same(target), True)
p.stage("two", uri=uri + "/", memory="128MiB")  # the same set, whatever else is asked for
other = p.publish("two", "pod-2")               # what was staged holds
p.publish("two", "pod-3")
expect("mounts of sampan", len([m for m in mounts() if "/state/mnt/" in m]), 1)
expect("binds, none of them at a staging path", len(mounts()), 1 + 3)
try:
    open(os.path.join(other, "new"), "w")
    raise SystemExit("a set that is read was written to")
except OSError:
    pass
stats = p.call("NodeGetVolumeStats", volume_id="one", volume_path=target)
samples = sum(len(f) for _, _, f in os.walk(src))
expect("units", [u.unit for u in stats.usage], [1, 2])
expect("abnormal", stats.volume_condition.abnormal, False)
expect("bytes are told", stats.usage[0].total > 0 and stats.usage[1].total >= samples, True)
expect("health", len(p.call("NodeGetVolumeHealth", volume_id="one", volume_publish_path=target).volume_health.health_statuses), 0)
p.call("NodeExpandVolume", volume_id="one", volume_path=target)
refused("FAILED_PRECONDITION", "unpublish it first", p.unstage, "one")
for _ in range(2):
    p.unpublish("one", "pod-1")
expect("target is gone", os.path.exists(target), False)
for _ in range(2):
    p.unstage("one")
expect("the other goes on", same(other), True)
p.unpublish("two", "pod-2"); p.unpublish("two", "pod-3"); p.unstage("two")
expect("left", mounts(), [])
# An inline volume has no staging.
inline = {"uri": uri, "csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.name": "x"}
fields = p.publish_fields("csi-inline", "pod-4", **inline)
fields["staging_target_path"] = ""
for _ in range(2):
    p.call("NodePublishVolume", **fields)
expect("content", same(fields["target_path"]), True)
p.unpublish("csi-inline", "pod-4")
PY
nothing_of_csi
