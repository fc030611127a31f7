"""Rows of what machines give each other: one runtime server, asked over loopback as another machine's mount asks."""
import os
import re
import sqlite3
import subprocess
from pathlib import Path

TOKEN = "0123456789abcdef-bench"
SECONDS = 2


def serve(bench, *mounts):
    """A runtime server of the mounts: its process, its port, and the token's file."""
    folder = bench.world.folder("serve")
    token = folder / "token"
    token.write_text(TOKEN + "\n")
    log = open(folder / "log", "w+", encoding="utf-8")
    server = subprocess.Popen([os.environ["SAMPAN"], "serve", "--listen", "127.0.0.1:0", "--state", folder / "state",
                               "--token-file", token, *(word for mount in mounts for word in ("--mount", mount.where))], stdout=log, stderr=log, env=bench.world.env)
    bench.world.processes.append(server)
    while server.poll() is None:
        found = re.search(r"listening on port (\d+)", (folder / "log").read_text())
        if found:
            return server, int(found[1]), token
    raise RuntimeError((folder / "log").read_text())


def batches(bench):
    """Samples in batches of 16 beside single ones, over one connection each."""
    from world import TOOLS, Mount  # pylint: disable=import-outside-toplevel
    quick = bench.world.quick
    for name, size, files, owes in (("115 KB", 115000, 400 if quick else 2000, 3), ("4 KB", 4096, 2000 if quick else 10000, 5)):
        source = bench.world.make_set(files, size)
        cache = bench.world.folder("cache")
        mount = Mount(bench.world, f"file://{source}", cache)
        mount.warmup()
        server, port, token = serve(bench, mount)
        with sqlite3.connect(f"file:{Path(cache) / 'catalog/current'}?mode=ro&immutable=1", uri=True) as db:
            version, ids = (db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0] for key in ("digest", "ids"))
            wanted = "".join(f"{i} {n}\n" for i, n in db.execute("SELECT id, size FROM node WHERE kind = 0"))

        def gets(batch, port=port, token=token, version=version, ids=ids, wanted=wanted):
            done = subprocess.run([TOOLS / "peer-gets", str(port), token, version, f"{ids:x}", str(batch), str(SECONDS)],
                                  input=wanted, stdout=subprocess.PIPE, text=True, check=True)
            return float(done.stdout)

        got = bench.alternate(single=lambda _: gets(1), batch=lambda _: gets(16), large=lambda _: gets(64))
        bench.line(f"peers: batches of 16 over loopback, {name}, of single gets",
                   f"{got['batch']:,.0f}/s of {got['single']:,.0f}/s; of 64: {got['large']:,.0f}/s",
                   got["batch"] / got["single"], owes)
        bench.world.processes.remove(server)
        server.kill()
        server.wait()
        mount.close()


ROWS = {"peers": batches}
