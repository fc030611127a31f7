"""Rows of packed sets, and of a runtime server beside a reader."""
import os
import subprocess
import time

from rows import KB4, KB115, fresh_mount, rate, served, sizes, warmed
from rows_peers import serve
from world import Mount, epoch

ASKERS = 16
ASKED_PER_S = 1000  # by all of them
LASTS_S = 8  # more than a pass; curl takes long over long lists
READ_PER_S = 4000
LINK = 50_000_000 // 8  # bytes a second


def packed(bench):
    """Samples of 4 KB that lie in packs: one GET carries many."""
    world = bench.world
    source = world.make_set(10000 if world.quick else 50000, KB4)
    packs = world.folder("packs")
    subprocess.run([os.environ["SAMPAN"], "sync", f"file://{source}", f"file://{packs}", "--pack", "32MiB", "--quiet"],
                   env=world.env, check=True)
    port = world.nginx(packs)

    def warmup(_):
        mount = Mount(world, f"http://127.0.0.1:{port}/", world.folder("cache"))
        result = mount.warmup()
        mount.close()
        return result["samples"] / result["seconds"]

    got = bench.alternate(packed=warmup)
    bench.line("warmup of 4 KB samples in packs, server on this machine", "", got["packed"], 20000, unit="/s")


class Askers:
    """So many requests a second for the status of a server, while it is entered."""

    def __init__(self, bench, port, token):
        folder = bench.world.folder("ask")
        (folder / "urls").write_text(f'url="http://127.0.0.1:{port}/v1/status"\noutput=/dev/null\n' * (LASTS_S * ASKED_PER_S // ASKERS))
        (folder / "header").write_text(f"Authorization: Bearer {token.read_text()}")
        self.command = ["curl", "-sf", "--no-progress-meter", "--rate", f"{ASKED_PER_S // ASKERS}/s", "-H", f"@{folder}/header",
                        "-w", "%{stderr}%{http_code}\n", "-K", folder / "urls"]
        self.log, self.askers = folder / "answers", []

    def __enter__(self):
        with open(self.log, "ab") as log:
            self.askers = [subprocess.Popen(self.command, stderr=log) for _ in range(ASKERS)]
        while not self.answers() and self.askers[0].poll() is None:
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        for asker in self.askers:
            asker.kill()
            asker.wait()

    def answers(self):
        return self.log.read_bytes().count(b"200")


def asked(bench):
    """A paced reader, alone and beside a warmup over a narrow link and a thousand requests for the status a second."""
    mount, _ = warmed(bench, bench.world.make_set(sizes(bench)[1], KB4))
    _, _, near = served(bench, sizes(bench)[0], KB115)
    far = bench.world.link(near, 1, LINK)
    answers = []

    def read(seed):
        return rate(epoch(mount.where, 1, seed, "--rate", str(READ_PER_S)))

    def read_beside(seed):
        filling = fresh_mount(bench, far)
        subprocess.run([os.environ["SAMPAN"], "warmup", filling.where, "--background", "--quiet"], env=bench.world.env, check=True)
        server, port, token = serve(bench, mount, filling)
        with Askers(bench, port, token) as askers:
            before = askers.answers()
            result = epoch(mount.where, 1, seed, "--rate", str(READ_PER_S))
            answers.append((askers.answers() - before) / result["seconds"])
        if filling.status()["warmup"]["state"] != "running":
            raise RuntimeError("the warmup ended before the reader")
        bench.world.processes.remove(server)
        server.kill()
        server.wait()
        filling.close()
        return rate(result)

    got = bench.alternate(alone=read, beside=read_beside)
    bench.line(f"reader paced at {READ_PER_S:,}/s beside a warmup and status requests, of alone",
               f"{got['beside']:,.0f}/s of {got['alone']:,.0f}/s; {sorted(answers)[len(answers) // 2]:,.0f} requests/s",
               got["beside"] / got["alone"], 0.95)
    mount.close()


ROWS = {"packed": packed, "asked": asked}
