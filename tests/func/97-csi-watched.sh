#!/usr/bin/env bash
# Calls are counted by method and logged without what they carry; /healthz and Probe say whether the plugin can work; the
# node's topology is the node.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 1 --files 5
cp "$SAMPAN" "$T/program"
csi_python <<'PY'
import re, urllib.error, urllib.request
p = plugin(args=["--metrics", "127.0.0.1:0", "--sampan", T + "/program"])
log = lambda: open(T + "/log/csi").read()
port = re.search(r"metrics and health on port (\d+)", log())[1]
def get(path):
    try:
        answer = urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=300)
    except urllib.error.HTTPError as e:
        answer = e
    return answer.status, answer.read().decode()
def metric(name, method):
    found = re.search(rf'^{name}{{method="{method}"}} (\S+)$', get("/metrics")[1], re.M)
    return found and float(found[1])
info = p.call("NodeGetInfo")
expect("topology", dict(info.accessible_topology.segments), {"topology.csi.sampan.io/node": "node-a"})
uri = "file://" + src
p.stage("v", uri=uri, memory="77MiB")
for _ in range(2):
    refused("INVALID_ARGUMENT", "uri: missing", p.stage, "w")
p.unstage("v")
def counted():
    "a call is counted once its answer has gone"
    return [metric(f"sampan_csi_{name}", method) for method in ("NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume")
            for name in ("calls_total", "errors_total", "in_flight", "call_seconds_count")] == [3, 2, 0, 3, 1, 0, 0, 1, 0, 0, 0, 0]
until(counted)
for line in (r"/csi\.v1\.Node/NodeStageVolume volume=v ms=\d", r"/csi\.v1\.Node/NodeStageVolume volume=w code=INVALID_ARGUMENT ms=\d.*uri: missing",
             r"/csi\.v1\.Node/NodeUnstageVolume volume=v ms=\d"):
    expect("logged: " + line, bool(re.search(line, log())), True)
expect("what a call carried is in the log", "77MiB" in log(), False)
expect("health", get("/healthz")[0], 200)
os.rename(T + "/program", T + "/away")
refused("FAILED_PRECONDITION", T + "/program", p.call, "Probe")
code, text = get("/healthz")
expect("without its program", (code, T + "/program" in text), (503, True))
os.rename(T + "/away", T + "/program")
expect("ready again", p.call("Probe").ready.value, True)
expect("healthy again", get("/healthz")[0], 200)
PY
nothing_of_csi
