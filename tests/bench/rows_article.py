"""The article's experiment in small (`make bench-article`): the shape of its figures over a 50 Mbit/s link. A consumer
stands for a GPU that takes 383 pictures of 35 KB a second; two of them share the epoch and one cache."""
import json
import random
import shutil
import subprocess

import peer_programs
from rows import Mount, fresh_mount, served
from world import SAMPAN, forget_pages

PICTURE, RATE, READERS = 35000, 383, 16  # readers: with fewer, a busy machine and not the link is what is measured
LINK = 50_000_000 // 8  # bytes a second


def consumers(bench, where, names, count, rate=RATE):
    """Samples a second that so many consumers get together, each of its share of a shuffled epoch."""
    order = sorted(names)
    random.Random(len(bench.lines)).shuffle(order)
    running, folder = [], bench.world.folder("orders")
    for i in range(count):
        share = folder / str(i)
        share.write_text("".join(f"{name}\n" for name in order[i::count]))
        words = [SAMPAN, "bench", "epoch", where, "--order", share, "--threads", READERS, "--rate", rate, "--json", "--quiet"]
        running.append(subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    seconds = 0
    for process in running:
        out, why = process.communicate(timeout=600)
        if process.returncode:
            raise RuntimeError(why.decode(errors="replace").strip()[-300:])
        result = json.loads(out)
        if result["errors"]:
            raise RuntimeError(f"{result['errors']} reads failed")
        seconds = max(seconds, result["seconds"])
    return len(names) / seconds


def article(bench):
    files = 600 if bench.world.quick else 6000
    source, names, near = served(bench, files, PICTURE)
    port = bench.world.link(near, 2, LINK)
    asked = []

    def mounted(count):
        """An epoch with nothing cached, then one from the disk; what the second asked of the store."""
        mount = fresh_mount(bench, port)
        cold = consumers(bench, mount.where, names, count)
        before = mount.status()["reads"]["store"]
        forget_pages()
        warm = consumers(bench, mount.where, names, count)
        asked.append(mount.status()["reads"]["store"] - before)
        bench.note(variant="mounted", consumers=count, cold=cold, warm=warm, asked=asked[-1])
        mount.close()
        return cold, warm

    def bare(_):
        forget_pages()
        return consumers(bench, source, names, 1)

    both = {1: [], 2: []}
    got = bench.alternate(bare=bare, one=lambda _: both[1].append(mounted(1)) or both[1][-1][1],
                          two=lambda _: both[2].append(mounted(2)) or both[2][-1][1])
    middle = lambda values: sorted(values)[len(values) // 2]
    cold = {count: middle([c for c, _ in both[count]]) for count in both}
    carries = LINK / PICTURE
    line = lambda what, value, of, owes, at_least=True: bench.line(what, f"{value:.0f}/s of {of:.0f}/s", value / of, owes, at_least)
    line("50 Mbit/s, not cached, 1 consumer: of what the link carries", cold[1], carries, 0.95)
    line("… the same is under the link", cold[1], carries, 1, False)
    line("… not cached, 2 consumers of 1", cold[2], cold[1], 1.10, False)
    line("… cached, 1 consumer, of the consumer's own rate", got["one"], RATE, 0.97)
    line("… cached of not cached, 1 consumer (the article: 1.81)", got["one"], cold[1], 1.81)
    line("… cached, 2 consumers of 1 (the article: 1.95)", got["two"], got["one"], 1.90)
    line("… cached, 2 consumers of not cached, 2 (the article: 3.33)", got["two"], cold[2], 3.33)
    line("… cached, 1 consumer, of the bare disk", got["one"], got["bare"], 0.98)
    bench.line("… requests to the store in epochs that are cached", "", max(asked), 0, at_least=False)


def bucket(bench, source):
    """The port of a MinIO that has the set in its bucket; s3fs finds its keys."""
    if not shutil.which("s3fs"):
        raise RuntimeError("no s3fs here")
    return peer_programs.serve(bench.world, source)


def plain_mount(bench):
    """Beside s3fs, first without a cache, then with one that is full: a store 20 ms away over a wide link, no rate is limited."""
    source = bench.world.make_set(300 if bench.world.quick else 1200, PICTURE)
    names = [str(p.relative_to(source)) for p in source.glob("*/*.bin")]
    endpoint = f"http://127.0.0.1:{bench.world.link(bucket(bench, source), 10)}"
    cached = []

    def ours(_):
        folder = bench.world.folder("cache")
        mount = Mount(bench.world, f"s3://{peer_programs.BUCKET}/", folder, "--endpoint", endpoint)
        mount.throw_away = folder
        cold = consumers(bench, mount.where, names, 1, 0)
        cached.append(consumers(bench, mount.where, names, 1, 0))
        mount.close()
        return cold

    def theirs(passes, cache):
        mount = peer_programs.s3fs(bench.world, endpoint, cache)
        try:
            return [consumers(bench, mount.where, names, 1, 0) for _ in range(passes)][-1]
        finally:
            mount.close()

    got = bench.alternate(ours=ours, theirs=lambda _: theirs(1, ""), cached=lambda _: theirs(2, bench.world.folder("cache")))
    bench.line("20 ms away, not cached, of a plain bucket mount (s3fs)", f"{got['ours']:.0f}/s of {got['theirs']:.0f}/s",
               got["ours"] / got["theirs"], 3)
    now = sorted(cached)[len(cached) // 2]
    bench.line("… once cached, of that mount once cached", f"{now:.0f}/s of {got['cached']:.0f}/s", now / got["cached"], 1)


# Not of `make bench`: they run when they are named.
NAMED = {"article": article, "article-plain-mount": plain_mount}
