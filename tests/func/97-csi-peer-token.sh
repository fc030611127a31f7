#!/usr/bin/env bash
# A volume whose Secret has the token of the other nodes' servers reads from them and not from the store; a renewed token is taken up; it
# stands in one file and nowhere else. One that comes with the first publish alone is used as well.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/peers.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 2 --files 20
start_nginx
peer_nodes 1 "$HTTP_URL/" # it keeps the whole set
sampan warmup "$T/m0" --quiet >"$T/warm.out"
export PEER=${URL[0]} STORE=$HTTP_URL/ TOKEN
csi_python <<'PY'
token = os.environ.pop("TOKEN")
p = plugin()
attributes = dict(uri=os.environ["STORE"], peers=os.environ["PEER"] + ",http://127.0.0.1:9")
def sampan(*words):
    return subprocess.run([SAMPAN, *words], check=True, capture_output=True, text=True, timeout=300).stdout
def set_mount():
    return [m for m in mounts() if "/state/mnt/" in m][0]
def peer(field):
    return [q[field] for q in json.loads(sampan("status", set_mount(), "--json"))["peers"] if q["url"].rstrip("/") == os.environ["PEER"]][0]
def divide():
    "node-a has the second of two partitions: what differs per node is set there"
    sampan("set", set_mount(), "partition=1/2", "strategy=sequence")
def same(target):
    return subprocess.run(["diff", "-r", src, target], capture_output=True).returncode == 0
# With a wrong one the server refuses, and the store is asked: the pod notices nothing.
p.stage("v", secrets={"peer-token": "wrong-" + token}, **attributes)
divide()
target = p.publish("v", "pod")
until(lambda: peer("state") == "ok") # it runs; who may have samples is another question
relative = [os.path.relpath(f, src) for f in files(src)]
expect("one sample", open(target + "/" + relative[0], "rb").read(), open(src + "/" + relative[0], "rb").read())
expect("and the other node", (peer("state"), peer("samples")), ("denied", 0))
# The right one takes its place while the set is mounted.
p.stage("v", secrets={"peer-token": token}, **attributes)
until(lambda: peer("state") == "ok")
expect("content", same(target), True)
expect("samples that came from the other node", peer("samples") > 0, True)
files_with = [f for f in files(T) if f.startswith((p.state, p.run)) and os.path.isfile(f) and token.encode() in open(f, "rb").read()]
expect("where the token is", [(os.path.dirname(f), oct(os.stat(f).st_mode & 0o777)) for f in files_with], [(p.run, "0o400")])
expect("in the log", token in open(T + "/log/csi").read(), False)
p.unpublish("v", "pod"); p.unstage("v")
expect("left", files(p.run), [])
# A Secret that is given to publish alone: the mount that staging made is made again with it, as long as no pod has it.
p.stage("late", **attributes)
pids = lambda: json.loads(sampan("status", set_mount(), "--json"))["pid"]
first = pids()
p.publish("late", "pod", secrets={"peer-token": token})
second = pids()
expect("another mount", first != second, True)
p.publish("late", "pod-2", secrets={"peer-token": token})
p.publish("late", "pod-3")
expect("the same mount", pids(), second)
divide()
until(lambda: peer("state") == "ok")
for pod in ("pod", "pod-2", "pod-3"):
    p.unpublish("late", pod)
p.unstage("late")
# Never under a pod: it goes on without.
p.stage("kept", **attributes)
p.publish("kept", "pod")
first = pids()
p.publish("kept", "pod", secrets={"peer-token": token})
p.stage("kept", secrets={"peer-token": token}, **attributes)
expect("the same mount", pids(), first)
p.unpublish("kept", "pod"); p.unstage("kept")
# A folder that is written asks no other node, but may share its Secret with sets that do.
p.stage("out", secrets={"peer-token": token}, uri="file://" + T + "/out", writable="true")
first = pids()
p.publish("out", "pod", secrets={"peer-token": token})
expect("files with a token, and the mount", (files(p.run), pids()), ([], first))
p.unpublish("out", "pod"); p.unstage("out")
refused("INVALID_ARGUMENT", "peer-token: empty", p.stage, "x", secrets={"peer-token": ""}, **attributes)
PY
unpeer
nothing_of_csi
