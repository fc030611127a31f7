#!/usr/bin/env bash
# Storms of 409, 429 and 500, cut watches, forgotten versions and an API server that is away lose no change and double nothing.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/operator.sh"
operator_python <<'PY'
kube = Kube("--bookmarks", "0.5", "--token", "one")
kube.control(fail={"status": 500, "n": 1000000, "path": "/api/v1/namespaces/default/secrets"})
op = Operator(kube, "one")
expect("without a key it is healthy", op.page("/healthz"), (200, "ok\n"))
expect("but not ready", op.page("/readyz")[0], 503)
expect("and says so", op.metric("sampan_operator_leads"), 0)
op.signal(signal.SIGHUP)
kube.control(mend=True)
until("it is ready", lambda: op.page("/readyz")[0] == 200)
kube.job("first", children=1)
kube.running("first")
def storm(name, **fault):
    """Jobs come while it blows; all of them run in the end."""
    kube.control(**fault)
    mine = [f"{name}{i}" for i in range(3)]
    for job in mine:
        kube.job(job, children=3)
    kube.running(*mine)
storm("conflict", fail={"status": 409, "n": 10, "method": "PATCH", "path": JOBS})
storm("throttle", fail={"status": 429, "retry_after": 1, "n": 3})
expect("they were counted", op.metric('sampan_operator_api_failures_total{why="throttled"}') > 0, True)
storm("broken", fail={"status": 500, "n": 10})
storm("cut", cut=True)
storm("forgotten", forget=True, cut=True)
until("lists again", lambda: op.metric("sampan_operator_lists_total") > 13)
kube.control(fail={"status": 404, "n": 2, "method": "GET", "path": "/apis/batch.paddlepaddle.org/v1/paddlejobs"})
storm("denied", forget=True, cut=True)
expect("a server that starts denies nothing", "knows no kind PaddleJob" in op.log(), False)
storm("away", down=2)
# --- what went while nobody watched is noticed by the list
kube.control(down=1)
kube.ask("DELETE", f"{MAPS}/cut0-1")
kube.ask("DELETE", f"{JOBS}/first")
kube.control(forget=True)
until("cut0-1 again", lambda: "cut0-1" in kube.names(MAPS))
until("first is gone", lambda: "first" not in kube.names(JOBS))
# --- a rotated token: the old one is refused, the file has the new one
op.set_token("two")
kube.control(tokens=["two"], cut=True)
kube.job("rotated", children=2)
kube.running("rotated")
expect("each child once", kube.created(MAPS), 1 + 7 * 3 * 3 + 1 + 2)
expect("children", len(kube.names(MAPS)), 7 * 3 * 3 + 2)
# --- who is in between says when to come back; an operator that keeps away for a day is of no use
kube.control(fail={"status": 503, "retry_after": 86400, "n": 1, "method": "GET", "path": "/apis/batch.paddlepaddle.org/v1/paddlejobs"})
kube.control(cut=True)
until(lambda: f"a minute's rest: {op.log()[-2000:]}", lambda: "again in 60000 ms" in op.log())
op.stop()
PY
