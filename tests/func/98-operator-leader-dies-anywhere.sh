#!/usr/bin/env bash
# Whoever leads is killed at its n-th write, right before that has had an effect or right after; the other operator goes
# on, and what comes to be is what comes without a kill: the same objects, each made once, and after their end nothing.
# A few n in all; SLOW=1 tries every one (minutes), POINT='7 after' that one.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/operator.sh"
own_world set-runtime-{0,1}.set-runtime-service.default
operator_story <<'PY'
import concurrent.futures, random

DONE = {f"{SETS}/set": "Ready", f"{WORK}/warm": "Succeeded", f"{JOBS}/ps": "Completed", f"{place(V1, 'paddlejobs', 'other')}/far": "Completed",
        f"{TRAIN}/edl": "Succeed", f"{TRAIN}/tasks": "Running"}

def story(n, when, want):
    """From YAML to the end of all: what there was in between (at last what is wanted, if that comes), and what it took."""
    kube = World()
    kube.nodes(3)
    both = [operator(kube, name) for name in ("one", "two")]
    until("a leader", kube.leader)
    kube.control(kill={"n": n, "when": when, "pids": {o.name: o.process.pid for o in both}})
    kube.set("set", 2, sharedTo=["other"])
    kube.warmup("warm", "set")
    kube.paddlejob("ps", "set", workers=2, ps=1)
    kube.paddlejob("far", "set", workers=3, ns="other", intranet="Service")
    kube.training("edl", pserver={"entrypoint": "serve", "min-instance": 1})
    kube.training("tasks", style="tensor", pserver={"entrypoint": "ps", "min-instance": 1})
    until(lambda: f"{DONE} of {[kube.phase_of(p) for p in DONE]}", lambda: [kube.phase_of(p) for p in DONE] == list(DONE.values()))
    killed = kube.control()["killed"] # by the last write, maybe: the other has to come first
    until("the other is at work", lambda: not killed or any("at work" in o.log() for o in both if o.name != killed))
    if want: # who takes over may do nothing for long before it goes on
        until(lambda: f"no rest: {differences(want, kube.picture())}", lambda: kube.still(0.7) and not differences(want, kube.picture()), 20)
    else:
        until("rest", lambda: kube.still(3))
    middle, warnings, made = kube.picture(), kube.warnings(), kube.made()
    for path in DONE:
        kube.ask("DELETE", path)
    left = lambda: [k for k in kube.picture() if not k.startswith("Node ")]
    until(lambda: f"nothing of {left()} is left", lambda: not left())
    said = kube.control()
    for o in both:
        if o.name == said["killed"]:
            expect("it was killed", o.process.wait(), -signal.SIGKILL)
        else:
            o.stop()
    return {"middle": middle, "warnings": warnings, "end": kube.picture(), "made": made, "writes": said["writes"],
            "killed": said["killed"], "jobs": {k: j["state"] for k, j in said["jobs"].items()}}

def apart(n, when):
    """A story in a network and a folder of its own."""
    folder = f"{T}/{n}-{when}"
    os.makedirs(folder)
    os.link(f"{T}/key", f"{folder}/key")
    json.dump(calm and calm["middle"], open(f"{folder}/want", "w"))
    with open(f"{folder}/output", "w") as out:
        code = subprocess.run(["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "-", sys.executable, sys.argv[0], str(n), when],
                              env=os.environ | {"T": folder}, stdout=out, stderr=out).returncode
    if code:
        raise SystemExit(f"kill {n} {when}: exit code {code}\n{open(f'{folder}/output').read()}\nagain: POINT='{n} {when}'")
    return json.load(open(f"{folder}/result"))

if len(sys.argv) > 1:
    result = story(int(sys.argv[1]), sys.argv[2], json.load(open(f"{T}/want")))
    json.dump(result, open(f"{T}/result", "w"))
    raise SystemExit

calm = None
calm = apart(0, "never")
expect("without a kill: warnings", calm["warnings"], [])
expect("without a kill: each once", [k for k, n in calm["made"].items() if n != 1], [])
print(f"{calm['writes']} writes, {len(calm['made'])} objects made, {len(calm['jobs'])} jobs of servers", flush=True)
points = [(n, when) for n in range(1, calm["writes"] + 1) for when in ("before", "after")]
if os.environ.get("POINT"):
    points = [(int(n), when) for n, when in [os.environ["POINT"].split()]]
elif not os.environ.get("SLOW"):
    # one of each eighth: only the last can lie beyond the end of a course that has fewer writes
    points = [random.choice(points[len(points) * k // 8:len(points) * (k + 1) // 8]) for k in range(8)]
met = 0
with concurrent.futures.ThreadPoolExecutor(6 if os.environ.get("SLOW") else 4) as pool:
    for (n, when), got in zip(points, pool.map(lambda p: apart(*p), points)):
        print(n, when, got["killed"], flush=True)
        if not got["killed"]: # this course had fewer writes
            continue
        met += 1
        for part in ("middle", "warnings", "end", "jobs"):
            expect(f"kill {n} {when}: {part}", differences(calm[part], got[part]), [])
        expect(f"kill {n} {when}: made", differences(calm["made"], got["made"]), [])
expect("a few were met", met >= len(points) * 0.8, True)
PY
