#!/usr/bin/env python3
"""operator_crowd.py SETS JOBS WORKERS QUIET_S

So many SampleSets (of 2 partitions) and PaddleJobs (that use them; every other has a worker less, so that those of one
set read it in different orders) are asked for at once of one operator, against the
API server of tests/servers/kube.py with what Kubernetes does by itself (kubeplay.py). Prints, as one line of JSON:

    seconds          until all sets are Ready and all jobs run
    cpu_s            of the operator until then
    hwm_mib          the most memory that the operator had (VmHWM)
    requests         {"read", "write", "watch", "lease"} until then, by the API server's log
    rounds, decide_p99_s, decide_p99_of   by the operator's metrics, within a bucket in proportion; also of each controller
    decide_cpu_p99_s, decide_cpu_p99_of   the same of the time on a core, which is what a busy machine leaves alone
    quiet            requests of so many seconds afterwards, leases and watches aside: a list of lines

Needs root: names of servers and their port are its own. The operator goes before the server and the players, which
share its cores: its decisions are timed by the wall clock. T: a folder; OPERATOR: the program; SAMPAN_TESTS.
"""
import concurrent.futures
import json
import os
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))


def go_apart(sets):
    """The same in a network of its own, where the names of all servers lead to 127.0.0.1."""
    from operator_world import runtime_hosts
    hosts = Path(os.environ["T"]) / "hosts"
    names = [host for s in range(sets) for host in runtime_hosts("default", f"set-{s}", 2)]
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"127.0.0.1 {name}\n" for name in names))
    script = 'mount --make-rprivate / && mount --bind "$0" /etc/hosts && ip link set lo up && exec "$@"'
    os.execvpe("unshare", ["unshare", "-m", "-n", "sh", "-c", script, str(hosts), sys.executable, *sys.argv], os.environ | {"APART": "1"})


def p99(text, controller=None, of="decide"):
    """What 99 of a hundred decisions did not take, as Prometheus' histogram_quantile reckons it; of: decide, decide_cpu."""
    buckets = {}
    for labels, n in re.findall(rf"^sampan_operator_{of}_seconds_bucket\{{(.*)\}} (\d+)", text, re.M):
        pair = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if controller in (None, pair["controller"]):
            buckets[float(pair["le"])] = buckets.get(float(pair["le"]), 0) + int(n)
    rank, below, under = 0.99 * max(buckets.values(), default=0), 0.0, 0
    for bound in sorted(buckets):
        if buckets[bound] >= rank > 0:
            return round(below + (bound - below) * (rank - under) / (buckets[bound] - under), 5)
        below, under = bound, buckets[bound]
    return 0


def kinds_of(rows):
    counts = {"read": 0, "write": 0, "watch": 0, "lease": 0}
    for row in rows:
        kind = "lease" if "/leases" in row[3] else "watch" if "watch=" in row[3] else "read" if row[2] == "GET" else "write"
        counts[kind] += 1
    return counts


def measure(sets, jobs, workers, quiet_s):
    from operator_world import JOBS, SETS, T, World, operator, until
    (Path(T) / "key").write_text("0123456789abcdef0123456789abcdef\n")
    kube = World("--keep", "1000000", ends=False)
    kube.nodes(20)
    op = operator(kube, "one")
    for thread in os.listdir(f"/proc/{op.process.pid}/task"):
        os.setpriority(os.PRIO_PROCESS, int(thread), -15)
    until("a leader", kube.leader)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(kube.set, f"set-{s}", 2) for s in range(sets)]
        asked += [pool.submit(kube.paddlejob, f"job-{j}", f"set-{j % sets}", workers=workers - j // sets % 2) for j in range(jobs)]
        for a in asked:
            a.result()

    def settled():
        time.sleep(0.5)
        left = {p: [o["metadata"]["name"] for o in kube.get(path)["items"] if o.get("status", {}).get("phase") != p]
                for path, p in ((SETS, "Ready"), (JOBS, "Running"))}
        return not any(left.values())

    until("all are ready and run", settled, 900)
    seconds = time.monotonic() - began
    until("rest", lambda: kube.still(2))
    rows = kube.lines()
    status = Path(f"/proc/{op.process.pid}/status").read_text()
    spent = Path(f"/proc/{op.process.pid}/stat").read_text().rpartition(")")[2].split()
    time.sleep(quiet_s)
    quiet = [" ".join(r[:4]) for r in kube.lines()[len(rows):] if "/leases" not in r[3] and "watch=" not in r[3]]
    text = op.page("/metrics")[1]
    result = {"seconds": round(seconds, 1), "cpu_s": (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK"), "hwm_mib": round(int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024, 1),
              "requests": kinds_of(rows), "rounds": op.metric("sampan_operator_rounds_total"), "decide_p99_s": p99(text),
              "decide_p99_of": {c: p99(text, c) for c in ("sampleset", "paddlejob")},
              "decide_cpu_p99_s": p99(text, of="decide_cpu"), "decide_cpu_p99_of": {c: p99(text, c, "decide_cpu") for c in ("sampleset", "paddlejob")}, "quiet": quiet, "warnings": kube.warnings(),
              "made": len(kube.made()), "doubled": [k for k, n in kube.made().items() if n != 1]}
    op.stop()
    return result


if __name__ == "__main__":
    numbers = [int(n) for n in sys.argv[1:]]
    if "APART" not in os.environ:
        go_apart(numbers[0])
    print(json.dumps(measure(*numbers)))
