#!/usr/bin/env bash
# Of two operators one acts; killed, hung or told to end, the other goes on, and nothing is made twice or lost.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/operator.sh"
operator_python <<'PY'
kube = Kube()
times = ["--lease-duration", "10s", "--lease-renew-by", "8s", "--lease-retry", "200ms"]
both = {name: Operator(kube, name, *times) for name in ("one", "two")}
jobs = 0
def more(n=3):
    global jobs
    for _ in range(n):
        kube.job(f"j{jobs}", children=4)
        jobs += 1
def all_run():
    kube.running(*[f"j{i}" for i in range(jobs)])
def who_leads():
    """The one whose renewal the server took last."""
    held = kube.leader()
    return next((o for o in both.values() if held and f"leading as {held}" in o.log()), None)
# --- kill -9 of whoever leads, in the middle of work
for _ in range(2):
    leader = until("a leader", who_leads)
    more()
    leader.kill()
    more()
    all_run()
    leader.start()
# --- told to end: the other does not wait for the lease to run out
leader = until("a leader", who_leads)
other = next(o for o in both.values() if o is not leader)
until("the other has its caches", lambda: other.page("/readyz")[0] == 200)
leader.stop()
more()
all_run()
leader.start()
# --- hung for longer than the lease: what it does when it wakes is nothing
leader = until("a leader", who_leads)
other = next(o for o in both.values() if o is not leader)
until("the other has its caches", lambda: other.page("/readyz")[0] == 200)
leader.signal(signal.SIGSTOP)
until("the other leads", lambda: who_leads() is other)
def writes():
    return [r for r in kube.lines(who=leader.name) if r[2] != "GET" and "leases" not in r[3]]
more()
all_run()
before = len(writes())
kube.job(f"j{jobs}", children=4)
leader.signal(signal.SIGCONT)
until("it knows", lambda: "leads no more" in leader.log()[leader.log().rindex("leading as"):])
expect("writes of the one that was hung", writes()[before:], [])
jobs += 1
all_run()
expect("each child once", kube.created(MAPS), 4 * jobs)
expect("children", len(kube.names(MAPS)), 4 * jobs)
for o in both.values():
    o.stop()
PY
