"""Rows of several nodes: four machines with narrow links, what is read at home, and hit ratios of small caches."""
import os
import random
import subprocess
import sys
from pathlib import Path

from rows import KB4, KB115, served
from world import SAMPAN, Mount, forget_pages, plain_gets

sys.path.insert(0, str(Path(__file__).parent.parent / "lib"))
import nodes as machines  # noqa: E402
from lru import lru  # noqa: E402

LINK = 50_000_000 // 8  # bytes a second
SPEC = "torch-distributed,ranks=4,batch-size=32"


# --- four machines ------------------------------------------------------------------------------------


def four(bench):
    """Network namespaces with 50 Mbit/s each to one S3 store; judged by the store's access log."""
    why = machines.unable()
    if why:
        raise RuntimeError(why)
    files = 400 if bench.world.quick else 1200
    source = bench.world.make_set(files, KB115)
    share = files * KB115 // 4
    with machines.Nodes(bench.world.folder("nodes"), source) as nodes:
        nodes.mount(str(share * 13 // 10 + (8 << 20)))
        nodes.serve()
        orders = nodes.orders(SPEC, epochs=5)

        def warmup(repeat):
            nodes.clear()
            result = nodes.warmup(f"w{repeat}", sampler=SPEC)
            return result["bytes"] / result["seconds"]

        got = bench.alternate(plain=lambda _: nodes.plain_gets(), warmup=warmup)
        bench.line("four nodes, 50 Mbit/s each: warmup, of plain GETs over the links",
                   f"{got['warmup'] / 1e6:.1f} of {got['plain'] / 1e6:.1f} MB/s; the wires: {4 * LINK / 1e6:.1f}", got["warmup"] / got["plain"], 0.9)
        took, asked = [], 0
        for epoch in range(1, 4):
            before = len(nodes.requests())
            nodes.begin_epoch(epoch)
            took.append(nodes.read_epoch(orders, epoch))
            bench.note(variant="epoch", epoch=epoch, seconds=took[-1], requests=len(nodes.requests()) - before)
            asked += len(nodes.requests()) - before
        bench.line("four nodes: three epochs after it, requests to the store", f"{files / sorted(took)[1]:,.0f} samples/s", asked, 0, at_least=False)
        before = len(nodes.requests())
        nodes.begin_epoch(4)
        took = nodes.read_epoch(orders, 4, nodes.all[3].kill)
        theirs = {nodes.paths[n] for n in orders[3][0]}
        others = sum(path not in theirs for path in nodes.requests()[before:])
        bench.line("a server killed in the middle: requests for what others keep",
                   f"{len(nodes.requests()) - before} for its own; {files / took:,.0f} samples/s", others, 0, at_least=False)


# --- a static part of the set -----------------------------------------------------------------------


def hits(bench):
    """A cache of C of D samples, epochs that are permutations; requests counted in the server's access log."""
    files, epochs = (400, 2) if bench.world.quick else (1000, 3)
    source, paths, _ = served(bench, files, KB115)
    log = bench.world.folder("log") / "access"
    port = bench.world.nginx(source, bench.world.manifest(source) + f" access_log {log};")

    def asked():
        return sum(line.split('"')[1].endswith(".bin HTTP/1.1") for line in log.read_text().splitlines())

    def read(where, seed):
        order = sorted(paths)
        random.Random(seed).shuffle(order)
        for path in order:
            if (where / path).stat().st_size != len((where / path).read_bytes()):
                raise RuntimeError(f"{path} is cut off")

    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        limit = int(share * files * (KB115 + 400)) + 200_000
        cache = bench.world.folder("cache")
        mount = Mount(bench.world, f"http://127.0.0.1:{port}/manifest.tsv", cache, "--no-hedge", tier=limit)
        mount.throw_away = cache
        read(mount.where, 0)
        held, before = mount.status()["cache"]["samples"], asked()
        for seed in range(1, epochs + 1):
            forget_pages()
            read(mount.where, seed)
        got = round(1 - (asked() - before) / files / epochs, 9)
        mount.close()
        bench.line(f"hit ratio, a cache of {share:g} of the set", f"holds {held / files:.3f}; LRU {lru(files, held, epochs):.3f}", got, max(share, held / files))


# --- read at home -----------------------------------------------------------------------------------


def order_of(n, spec):
    done = subprocess.run([SAMPAN, "plan", "--count", str(n), "--sampler", spec, "--print", "order"], stdout=subprocess.PIPE, check=True)
    return [int(line) for line in done.stdout.split()]


def share(bench):
    """Warmed mounts, one a node, read in the real order with nothing else to ask; requests in the server's log are
    what was not at home. Beside it upstream's strategies, by arithmetic: nodes drawn at random, and i mod P."""
    n = 397 if bench.world.quick else 997
    source = bench.world.make_set(n, KB4)
    names = sorted(str(p.relative_to(source)) for p in source.glob("*/*.bin"))
    log = bench.world.folder("log") / "access"
    port = bench.world.nginx(source, bench.world.manifest(source) + f" access_log {log};")
    catalog = bench.world.folder("catalog") / "set.catalog"
    subprocess.run([SAMPAN, "scan", f"http://127.0.0.1:{port}/manifest.tsv", "-o", catalog, "--quiet"], env=bench.world.env, check=True,
                   stdout=subprocess.DEVNULL)
    cases = [(name, drop, shuffle, size, ranks, each) for name in ("paddle-distributed", "torch-distributed", "local")
             for drop in ("false", "true") for shuffle in (("true", "false") if name != "local" else ("",)) for size in (1, 8, 64)
             for ranks, each in ((2, 1), (3, 1), (4, 1), (4, 2), (8, 2))]
    drawn = random.Random(1)
    worst, total, missed, upstream = 1.0, 0, 0, [0, 0]
    for name, drop, shuffle, size, ranks, each in drawn.sample(cases, 10 if bench.world.quick else len(cases)):
        spec = f"{name},ranks={ranks},ranks-per-node={each},batch-size={size},drop-last={drop},epoch={drawn.randrange(9)}"
        spec += f",shuffle={shuffle}" if shuffle else ""
        parts, here = ranks // each, 0
        draw = [drawn.randrange(parts) for _ in range(n)]
        reads = away = 0
        for node in range(parts):
            cache = bench.world.folder("cache")
            mount = Mount(bench.world, f"http://127.0.0.1:{port}/manifest.tsv", cache, "--catalog", catalog, "--no-hedge",
                          "--sampler", spec, "--partition", f"{node}/{parts}")
            mount.throw_away = cache
            mount.warmup()
            before = len(log.read_text().splitlines())
            for rank in range(node * each, (node + 1) * each):
                for i in order_of(n, f"{spec},rank={rank}"):
                    if (mount.where / names[i]).read_bytes() != (source / names[i]).read_bytes():
                        raise RuntimeError(f"{spec}: {names[i]} is wrong")
                    reads += 1
                    upstream[0] += draw[i] == node
                    upstream[1] += i % parts == node
            away += len(log.read_text().splitlines()) - before
            mount.close()
        here = 1 - away / reads if reads else 1.0
        bench.note(variant="share", spec=spec, partitions=parts, reads=reads, away=away)
        worst, total, missed = min(worst, here), total + reads, missed + away
    bench.line("reads at home in the warmed epoch, the worst of all cases",
               f"{missed} of {total:,} away; drawn {upstream[0] / total:.3f}, i mod P {upstream[1] / total:.3f}", worst, 1)


# --- packs over a narrow link ------------------------------------------------------------------------


def narrow_packed(bench):
    """4 KB samples in packs over 50 Mbit/s, of one large GET over the same link."""
    world = bench.world
    files = 3000 if world.quick else 10000
    packs = world.folder("packs")
    subprocess.run([SAMPAN, "sync", f"file://{world.make_set(files, KB4)}", f"file://{packs}", "--pack", "8MiB", "--quiet"], env=world.env, check=True)
    (packs / "large.bin").write_bytes(os.urandom(8 << 20))
    port = world.link(world.nginx(packs), 1, LINK)

    def warmup(_):
        cache = world.folder("cache")
        mount = Mount(world, f"http://127.0.0.1:{port}/", cache)
        mount.throw_away = cache
        result = mount.warmup()
        mount.close()
        return result["bytes"] / result["seconds"]

    got = bench.alternate(large=lambda _: plain_gets(f"http://127.0.0.1:{port}", ["large.bin"], 1) * (8 << 20), packed=warmup)
    bench.line("over 50 Mbit/s, 4 KB in packs, of one large GET", f"{got['packed'] / 1e6:.2f} of {got['large'] / 1e6:.2f} MB/s",
               got["packed"] / got["large"], 0.95)


ROWS = {"nodes": four, "hits": hits, "share": share, "narrow-packed": narrow_packed}
