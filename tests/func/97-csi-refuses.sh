#!/usr/bin/env bash
# Bad input gets the code that the specification names and a text that says what to do; 200 calls at once are answered.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 1 --files 5
csi_python <<'PY'
p = plugin()
uri = "file://" + src
bad, pre = "INVALID_ARGUMENT", "FAILED_PRECONDITION"
for id, text in (("", "volume_id: missing"), ("a/b", "no '/'"), ("..", "no '/'"), ("x" * 129, "at most 128"), ("a\nb", "control")):
    fields = p.stage_fields("v", uri=uri)
    refused(bad, text, p.call, "NodeStageVolume", **fields | {"volume_id": id})
    refused(bad, text, p.call, "NodeUnstageVolume", volume_id=id, staging_target_path=p.staging("v"))
    refused(bad, text, p.call, "NodePublishVolume", **p.publish_fields("v", "p", uri=uri) | {"volume_id": id})
    refused(bad, text, p.call, "NodeUnpublishVolume", volume_id=id, target_path=p.target("v", "p"))
    refused(bad, text, p.call, "DeleteVolume", volume_id=id)
stage = lambda **kw: p.stage("v", **kw)
refused(bad, "uri: missing", stage)
refused(bad, "sampler: unknown (known are: uri", stage, uri=uri, sampler="x")
refused(bad, "did you mean memory", stage, uri=uri, memry="1GiB")
refused(bad, "want TIER:/DIR=SIZE", stage, uri=uri, cache="ssd:relative=1GiB")
refused(bad, "memory", stage, uri=uri, memory="much")
refused(bad, 'want "true" or "false"', stage, uri=uri, writable="yes")
refused(bad, "direct: goes not with writable", stage, uri=uri, direct="true", writable="true")
refused(bad, "password", stage, uri="s3://KEY:SECRET@bucket/x")
refused(bad, "block", stage, uri=uri, cap=capability(block=True))
refused(bad, "fs_type: ext4", stage, uri=uri, cap=capability(fs_type="ext4"))
refused(bad, "access mode", stage, uri=uri, cap=capability(mode="UNKNOWN"))
refused(bad, "mount options: frobnicate", stage, uri=uri, cap=capability(flags=["frobnicate"]))
refused(bad, "volume_mount_group", stage, uri=uri, cap=capability(group="staff"))
refused("UNAUTHENTICATED", "half a credential", stage, uri=uri, secrets={"access-key": "AKIA"})
refused(bad, "secrets: secret-key: empty", stage, uri=uri, secrets={"access-key": "AKIA", "secret-key": ""})
refused("NOT_FOUND", "no such folder", stage, uri="file:///nonexistent/set")
# Who makes a pod writes its inline volumes: they name nothing of the node.
own = p.publish_fields("i", "pod")["target_path"]
def inline(secrets={}, **kw):
    context = {"csi.storage.k8s.io/ephemeral": "true", **kw}
    p.call("NodePublishVolume", **p.publish_fields("i", "pod", secrets=secrets, **context) | {"staging_target_path": ""})
refused(bad, "--inline-file", inline, uri=uri)
refused(bad, "--inline-file", inline, uri='{"sources":[{"uri":"%s"}]}' % uri)
refused(bad, "an inline volume's cache lies below " + p.root + "/cache", inline, uri="s3://b/set", cache="ssd:/etc=1GiB")
refused(bad, "an inline volume's cache lies below", inline, uri="s3://b/set", mountOptions="cache-dir=/dev/shm/x,cache-size=100")
refused(bad, "no file of the node", inline, uri="s3://b/set", peers="/etc/shadow")
refused(bad, "web_identity_token_file", inline, uri="s3://b/set", secrets={"credentials": "[default]\nrole_arn=a\nweb_identity_token_file=/etc/shadow\n"})
expect("what was made for it", (os.path.exists(own), mounts()), (False, []))
gone = p.stage_fields("v", uri=uri) | {"staging_target_path": p.pods + "/never-made"}
refused(pre, "kubelet makes it", p.call, "NodeStageVolume", **gone)
os.symlink("/etc", p.pods + "/link"); open(p.pods + "/file", "w").close()
p.stage("v", uri=uri)
refused("ALREADY_EXISTS", "other attributes", stage, uri=uri, profile="shards")
for path, text in (("relative", "absolute"), ("/", "absolute"), (T + "/elsewhere", "outside kubelet's folder"), (p.pods + "/../x", "\"..\""),
                   (p.pods + "/link", "symbolic link"), (p.pods + "/link/x", "outside"), (p.pods + "/file", "a file stands there"), ("", "missing")):
    refused(bad, text, p.call, "NodePublishVolume", **p.publish_fields("v", "p") | {"target_path": path})
    refused(bad, text, p.call, "NodeUnpublishVolume", volume_id="v", target_path=path)
    refused(bad, text, p.call, "NodeStageVolume", **p.stage_fields("v", uri=uri) | {"staging_target_path": path})
    refused(bad, text, p.call, "NodeUnstageVolume", volume_id="v", staging_target_path=path)
expect("what stood there", (os.readlink(p.pods + "/link"), os.path.isfile(p.pods + "/file"), os.listdir(p.pods + "/pods/p/v")), ("/etc", True, []))
elsewhere = p.pods + "/elsewhere"
os.makedirs(elsewhere)
refused(pre, "staged at", p.call, "NodeStageVolume", **p.stage_fields("v", uri=uri) | {"staging_target_path": elsewhere})
refused(pre, "staged at", p.call, "NodeUnstageVolume", volume_id="v", staging_target_path=elsewhere)
refused(pre, "NodeStageVolume comes first", p.publish, "never-staged", "p", uri=uri)
refused(pre, "staging_target_path: missing", p.call, "NodePublishVolume", **p.publish_fields("v", "p") | {"staging_target_path": ""})
single = capability(mode="SINGLE_NODE_SINGLE_WRITER")
p.publish("v", "p1", cap=single)
refused(pre, "one pod alone", p.publish, "v", "p2", cap=single)
refused("NOT_FOUND", "not at", p.call, "NodeGetVolumeStats", volume_id="v", volume_path="/some/path")
refused("NOT_FOUND", "neither staged", p.call, "NodeGetVolumeStats", volume_id="w", volume_path="/some/path")
def call_raw(path, body):
    try:
        return p.channel.unary_unary(path)(body, timeout=300)
    except grpc.RpcError as e:
        raise Refused(e) from None
refused("UNIMPLEMENTED", "no such method", lambda: call_raw("/csi.v1.Node/NodeFly", b""))
refused(bad, "NodeStageVolumeRequest", lambda: call_raw("/csi.v1.Node/NodeStageVolume", b"\xff\xff\xff"))
# 200 at once, of 20 volumes: each is done or told that another call for its volume is under way; what was told so is done when it is
# asked again.
many = [f"many-{i}" for i in range(20)]
def at_once(calls):
    "calls as (method, fields)"
    begun = [(p.begin(method, **fields), method, fields) for method, fields in calls]
    codes = [(c.exception() and c.exception().code().name) or "OK" for c, _, _ in begun]
    expect("codes", set(codes) - {"OK", "ABORTED"}, set())
    for code, (_, method, fields) in zip(codes, begun):
        if code == "ABORTED":
            p.call(method, **fields)
    return codes.count("OK")
expect("each volume was staged", at_once([("NodeStageVolume", p.stage_fields(v, uri=uri)) for v in many * 5] +
                                         [("NodeGetVolumeStats", dict(volume_id="v", volume_path=p.staging("v")))] * 100) >= 20, True)
pods = [(v, f"pod-{i}") for v in many for i in range(5)]
at_once([("NodePublishVolume", p.publish_fields(v, pod)) for v, pod in pods * 2])
expect("mounts", len(mounts()), 1 + 1 + 100)  # the set, p1 and these
at_once([("NodeUnpublishVolume", dict(volume_id=v, target_path=p.target(v, pod))) for v, pod in pods * 2])
at_once([("NodeUnstageVolume", dict(volume_id=v, staging_target_path=p.staging(v))) for v in many * 10])
expect("mounts", len(mounts()), 1 + 1)
p.unpublish("v", "p1"); p.unstage("v")
# A second plugin: on the same state, on the same socket, on what is no socket.
def start_fails(text, **kw):
    other = Plugin(start=False, **kw)
    done = subprocess.run(other.words(), capture_output=True, text=True, timeout=300)
    if done.returncode == 0 or text not in done.stderr or done.stderr.count("\n") != 1:
        raise SystemExit(f"{kw}: {done}")
start_fails("running already", name="csi")
start_fails("another process serves this socket", name="csi-b", socket=p.socket)
start_fails("is no socket", name="csi-c", socket=p.pods + "/file")
# What a killed plugin was starting may hold its folder for a moment: the next one waits for that.
import fcntl, threading, time
after = Plugin(start=False, name="csi-d")
os.makedirs(after.state, exist_ok=True)
held = os.open(after.state, os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_EX)
def let_go():
    "once the plugin is there and has the folder open"
    while not after.process or after.state not in {os.path.realpath(f"/proc/{after.process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{after.process.pid}/fd")}:
        time.sleep(0.01)
    time.sleep(0.1)
    os.close(held)
threading.Thread(target=let_go).start()
after.start(); after.stop()
PY
nothing_of_csi
