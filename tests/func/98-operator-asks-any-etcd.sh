#!/usr/bin/env bash
# Of several etcds one that answers is enough: elastic jobs go on while others are away or without a leader. Two jobs that
# etcd could not tell apart (a/b-c and a-b/c) take turns, the later one says what it waits for, and others are not held up.
# What an etcd answers that takes nothing is an event of the job.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/operator.sh"
own_world
operator_story <<'PY'
import socket

asked = []
away = socket.socket() # nobody listens there
away.bind(("127.0.0.1", 0))
servers = f"http://127.0.0.1:{away.getsockname()[1]}, 127.0.0.1:{etcd(503, asked)},http://127.0.0.1:{etcd(200, asked)}/"
kube = World(ends=False)
op = operator(kube, "one", "--etcd", servers)
until("a leader", kube.leader)

def paths(ns, name):
    return place(V1, "paddlejobs", ns) + "/" + name

def pods(ns):
    return [o["metadata"]["name"] for o in kube.get(f"/api/v1/namespaces/{ns}/pods")["items"]]

def message(ns, name):
    return kube.get(paths(ns, name)).get("status", {}).get("message", "")

kube.paddlejob("b-c", ns="a", elastic=1)
until("pods of the first", lambda: len(pods("a")) == 2)
expect("who was asked for it, and by which key", asked, [(503, "/paddle/a-b-c"), (200, "/paddle/a-b-c")])

kube.paddlejob("c", ns="a-b", elastic=1)
kube.paddlejob("d", ns="a-b", elastic=1)
until("pods of one whose name no other has", lambda: pods("a-b") == ["d-worker-0", "d-worker-1"])
until(lambda: f"what the second waits for: {message('a-b', 'c')!r}", lambda: "waits for the end of job a/b-c: in etcd both are a-b-c" in message("a-b", "c"))
expect("what the first says", "waits" in message("a", "b-c"), False)

expect("the first goes", kube.ask("DELETE", paths("a", "b-c"))[0], 200)
until("pods of the second", lambda: len(pods("a-b")) == 4)
expect("keys", [key for status, key in asked if status == 200], ["/paddle/a-b-c", "/paddle/a-b-d", "/paddle/a-b-c"])
op.stop()

# An etcd that takes nothing: the job says where its answer is told.
refused = "etcdserver: user name is empty"
port = etcd(400, says=json.dumps({"code": 3, "message": refused}).encode())
op = operator(kube, "two", "--etcd", f"127.0.0.1:{port}")
kube.paddlejob("e", ns="a", elastic=1)
until(lambda: f"where it waits: {message('a', 'e')!r}", lambda: "events NotTaken" in message("a", "e"))
until(lambda: f"what etcd says: {kube.warnings()}",
      lambda: any(reason == "NotTaken" and refused in why for reason, why in kube.warnings()))
op.stop()
PY
