#!/usr/bin/env bash
# Objects come to be what was asked for, once each; then nothing is asked but the lease; what was deleted is taken along.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/operator.sh"
operator_python <<'PY'
kube = Kube()
kube.make("/api/v1/namespaces/default/secrets", "keys", "Secret", stringData={"a": "hush-hush", "b": "2"})
for n in range(600): # pages of a list
    kube.make("/api/v1/nodes", f"n{n}", "Node", status={"images": [{"names": ["x" * 100]}]})
op = Operator(kube, "one", "--lease-retry", "300ms")
kube.job("a", children=3, secret="keys")
kube.running("a")
expect("children", kube.names(MAPS), ["a-0", "a-1", "a-2"])
expect("its status", until("the secret", lambda: kube.get(f"{JOBS}/a")["status"]["message"]), "secret of 2")
expect("ready", op.page("/readyz"), (200, "ok\n"))
expect("healthy", op.page("/healthz"), (200, "ok\n"))
expect("no other page", op.page("/secrets")[0], 404)
expect("nodes", [line.split()[-1] for line in op.page("/metrics")[1].splitlines() if 'objects{kind="Node"}' in line], ["600"])
expect("pages", len(kube.lines("GET", "/api/v1/nodes?limit")), 3)
# --- nothing changes: nothing is asked
until("the event", lambda: kube.get(EVENTS)["items"])
until("rest", lambda: op.metric("sampan_operator_queue_keys") == 0 and op.metric("sampan_operator_rounds_total") > 0)
quiet = len(kube.lines())
until("renewals", lambda: len(kube.lines("PATCH", "leases")) > 8 and len(kube.lines()) > quiet + 5)
for row in kube.lines()[quiet + 2:]:
    expect("nothing but the lease", row[3], LEASE)
# --- a child that is lost comes again; fewer are wanted; one too many goes
kube.ask("DELETE", f"{MAPS}/a-1")
until("a-1 again", lambda: kube.names(MAPS) == ["a-0", "a-1", "a-2"])
kube.annotate("a", children=1)
until("fewer", lambda: kube.names(MAPS) == ["a-0"])
kube.running("a")
# --- the same event is one event
kube.annotate("a", again=1)
rounds = op.metric("sampan_operator_rounds_total")
until("rounds by the clock", lambda: op.metric("sampan_operator_rounds_total") >= rounds + 2)
for event in kube.get(EVENTS)["items"]:
    expect("count", event["count"], 1)
expect("events", sorted(e["message"] for e in kube.get(EVENTS)["items"]), ["1 children", "3 children"])
# --- a name that somebody else holds is left alone and told of
kube.make(MAPS, "b-0", "ConfigMap", data={"mine": "yes"})
kube.job("b", children=2)
until("the event", lambda: [e for e in kube.get(EVENTS)["items"] if e["reason"] == "NameTaken" and e["message"] == "b-0 is not ours"])
expect("untouched", kube.get(f"{MAPS}/b-0")["data"], {"mine": "yes"})
until("the rest of b", lambda: "b-1" in kube.names(MAPS))
# --- what the server refuses, the user hears of
kube.control(fail={"status": 422, "n": 1, "method": "POST", "path": MAPS})
kube.job("c", children=1)
until("the event", lambda: [e for e in kube.get(EVENTS)["items"] if e["reason"] == "Refused" and e["type"] == "Warning"])
kube.running("c")
# --- the end of a job
kube.ask("DELETE", f"{JOBS}/a")
until("a and its children are gone", lambda: "a" not in kube.names(JOBS) and "a-0" not in kube.names(MAPS))
op.stop()
expect("the lease was given back", kube.leader(), "")
expect("no secret in the log", [w for w in ("hush-hush", "aHVzaC1odXNo") if w in op.log()], [])
expect("no child was made twice", kube.created(MAPS), 3 + 1 + 1 + 1)
PY
