"""The row of the CSI driver: what a node does for pods, over its own gRPC socket."""
import json
import os
import subprocess
from pathlib import Path

from rows import KB4
from world import run_json

PYTHON = Path(os.environ.get("VENV_PYTHON", ".venv/bin/python"))


def many(bench):
    """A set of BENCH_CSI_SAMPLES samples (10 M) as a snapshot of it would be mounted: by its catalog."""
    count = int(os.environ.get("BENCH_CSI_SAMPLES", 100000 if bench.world.quick else 10000000))
    where = bench.world.folder("many")
    (where / "one.bin").write_bytes(os.urandom(KB4))
    with open(where / "manifest.tsv", "w", encoding="ascii") as out:
        out.writelines(f"set/c{i % 1000:04d}/{i:08d}.bin\t{KB4}\t1700000000\n" for i in range(count))
    port = bench.world.nginx(where, "location /set/ { rewrite ^ /one.bin break; }")
    catalogs = bench.world.folder("catalogs")
    uri = f"http://127.0.0.1:{port}/manifest.tsv"
    scanned = run_json(os.environ["SAMPAN"], "scan", uri, "-o", catalogs / "new", "--json", "--quiet", timeout=3600)
    (catalogs / "new").rename(catalogs / scanned["version"])
    return count, {"attributes": {"uri": uri, "version": scanned["version"], "catalogs": f"file://{catalogs}/"},
                   "sample": "set/c0007/00000007.bin"}


def csi(bench):
    """Volumes staged at once, cycles that leave nothing, a large set from stage to its first byte."""
    if not PYTHON.exists():
        raise RuntimeError("grpcio is not there (make venv)")
    count, first = many(bench)
    home = bench.world.folder("csi")
    (home / "first.json").write_text(json.dumps(first))
    done = subprocess.run([PYTHON, "tests/bench/csi_client.py", home, home / "first.json"], env=bench.world.env, stdout=subprocess.PIPE,
                          timeout=1800, check=False)
    if done.returncode:
        raise RuntimeError("csi_client.py failed")
    figures = json.loads(done.stdout)
    bench.note(variant="csi", **figures)
    bench.line("50 volumes of 50 sets staged at once on a node", "", figures["parallel"], 10, at_least=False, unit=" s")
    gone = figures["left"]
    bench.line("left by 100 cycles of stage, publish, read and back", "mounts + processes + files", sum(gone.values()), 0, at_least=False)
    bench.line("one such cycle", "", figures["cycle"], None, unit=" s")
    bench.line(f"stage to first byte, {count} samples", f"{figures['first'][0]:.2f} s the first time", min(figures["first"][1:]), 1.5,
               at_least=False, unit=" s")


ROWS = {"csi": csi}
