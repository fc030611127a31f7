"""The row of the operator: many objects at once, what that costs, and the quiet afterwards."""
import json
import os
import subprocess
import sys
from pathlib import Path


def operator(bench):
    """100 sets and 200 jobs of 8 workers against an API server in memory (tests/servers/kube.py)."""
    sets, jobs, workers = (10, 20, 4) if bench.world.quick else (100, 200, 8)
    program = Path(os.environ["SAMPAN"]).with_name("sampan-operator")
    if not program.exists():
        raise RuntimeError(f"{program} is not built")
    env = {**bench.world.env, "T": str(bench.world.folder("operator")), "OPERATOR": str(program.resolve()),
           "SAMPAN_TESTS": str(Path("tests").resolve())}
    done = subprocess.run([sys.executable, "tests/bench/operator_crowd.py", str(sets), str(jobs), str(workers), "10"], env=env,
                          stdout=subprocess.PIPE, timeout=1200, check=False)
    if done.returncode:
        raise RuntimeError("operator_crowd.py failed")
    got = json.loads(done.stdout)
    bench.note(variant="operator", **got)
    asked = got["requests"]
    bench.line(f"{sets} sets, {jobs} jobs of {workers} at once: until all run", f"{got['cpu_s']:.1f} s of CPU", got["seconds"], None, unit=" s")
    bench.line("most memory of the operator", "", got["hwm_mib"], 200, at_least=False, unit=" MiB")
    bench.line("decisions, 99 of 100, milliseconds", f"{got['rounds']:.0f} rounds", 1000 * got["decide_p99_s"], 50, at_least=False)
    bench.line("the same of their time on a core", "", 1000 * got["decide_cpu_p99_s"], 50, at_least=False)
    bench.line("requests to the API server, an object it made", f"{asked['write']} writes, {asked['read']} reads", (asked["write"] + asked["read"])
               / got["made"], 5, at_least=False)
    bench.line("requests of 10 s in which nothing changed", "leases and watches aside", len(got["quiet"]), 0, at_least=False)


ROWS = {"operator": operator}
