"""The rows of the table: each function measures one promise and writes its lines."""
import os
import subprocess
import threading
import time

import peer_programs
from world import TOOLS, Mount, epoch, forget_pages, plain_gets, run_json

KB115, KB4 = 115000, 4096
ORDER = "paddle-distributed,ranks=1,batch-size=32,shuffle=true,epoch={}"


def sizes(bench):
    """(files of 115 KB, files of 4 KB)"""
    return (800, 4000) if bench.world.quick else (2000, 10000)


def rate(result):
    if result["errors"]:
        raise RuntimeError(f"{result['errors']} reads failed")
    return result["samples_per_s"]


def warm_native(where):
    """Native as it is defined: read back from the disk, then one warm-up pass."""
    forget_pages()
    epoch(where, 8)
    epoch(where, 8)


def warmed(bench, source, *options):
    """A mount whose cache holds all of a set, and the cache's folder."""
    cache = bench.world.folder("cache")
    mount = Mount(bench.world, f"file://{source}", cache, *options)
    mount.warmup()
    return mount, cache


def asked_for(mount):
    """READs that a reader caused: those that reached the owner, less those of its own pushing."""
    reads = mount.status()["reads"]
    return reads["total"] - reads["pushed"]


def kilo(n):
    return f"{n / 1000:.1f} k/s" if n >= 1000 else f"{n:.0f}/s"


# --- page cache hits --------------------------------------------------------------------------------


def hot(bench):
    for size, files, owes in ((KB115, sizes(bench)[0], 0.95), (KB4, sizes(bench)[1], 0.70)):
        source = bench.world.make_set(files, size)
        mount, _ = warmed(bench, source)
        warm_native(source)
        epoch(mount.where, 8)
        epoch(mount.where, 8)
        for threads in (1, 2, 8):
            before = asked_for(mount)
            got = bench.alternate(
                native=lambda seed: rate(epoch(source, threads, seed, epochs=4)),
                sampan=lambda seed: rate(epoch(mount.where, threads, seed, epochs=4)))
            asked = asked_for(mount) - before
            bench.note(variant="owner", threads=threads, reads_that_reached_the_owner=asked, resident=mount.resident())
            bench.line(f"hot epoch, {size // 1000} KB, T={threads}, of native",
                       f"{kilo(got['sampan'])} of {kilo(got['native'])}", got["sampan"] / got["native"], owes)
        mount.close()


def first_epoch(bench):
    """A new mount on a warm cache: the kernel knows no page of it yet."""
    source = bench.world.make_set(sizes(bench)[0], KB115)
    mount, cache = warmed(bench, source)
    mount.close()
    warm_native(source)

    def walked():
        """Names known, as a training has listed them; no page."""
        fresh = Mount(bench.world, f"file://{source}", cache)
        run_json(os.environ["SAMPAN"], "bench", "meta", fresh.where, "--json")
        return fresh

    def blind(threads, seed):
        fresh = walked()
        result = rate(epoch(fresh.where, threads, seed))
        fresh.close()
        return result

    def known(threads, seed, *options):
        spec = ORDER.format(seed)
        fresh = walked()
        subprocess.run([os.environ["SAMPAN"], "set", fresh.where, f"sampler={spec}"], check=True, stdout=subprocess.DEVNULL)
        result = epoch(fresh.where, threads, None, "--sampler", spec, *options)
        asked = asked_for(fresh)
        fresh.close()
        bench.note(variant="known", threads=threads, options=options, result=result, asked=asked)
        return rate(result), 1 - min(1, asked / result["samples"])

    for threads, owes_blind, owes_known in ((1, 0.15, 0.30), (8, 0.22, None)):
        got = bench.alternate(
            native=lambda seed: rate(epoch(source, threads, seed)),
            blind=lambda seed: blind(threads, seed),
            known=lambda seed: known(threads, seed)[0])
        bench.line(f"first epoch on a warm cache, blind, 115 KB, T={threads}, of native hot",
                   f"{kilo(got['blind'])} of {kilo(got['native'])}", got["blind"] / got["native"], owes_blind)
        if owes_known:
            bench.line(f"first epoch, order known, flat out, T={threads}, of native hot",
                       f"{kilo(got['known'])} of {kilo(got['native'])}", got["known"] / got["native"], owes_known)
        else:
            bench.line(f"first epoch, order known, flat out, T={threads}, of blind",
                       f"{kilo(got['known'])} of {kilo(got['blind'])}", got["known"] / got["blind"], 1.0)
    shares = bench.alternate(paced=lambda seed: known(1, seed, "--rate", "4000")[1])
    bench.line("order known, reader at 4 000/s: found in the page cache", "share of samples", shares["paced"], 0.99)


def dropped(bench):
    """Samples on the local disk only: the page cache is dropped before each pass."""
    source = bench.world.make_set(sizes(bench)[0], KB115)
    mount, cache = warmed(bench, source)
    mount.close()

    def native(threads, seed):
        forget_pages()
        return rate(epoch(source, threads, seed))

    def sampan(threads, seed, known):
        spec = ORDER.format(seed)
        fresh = Mount(bench.world, f"file://{source}", cache, *(("--sampler", spec) if known else ()))
        forget_pages()
        order = (None, "--sampler", spec) if known else (seed,)
        result = rate(epoch(fresh.where, threads, *order))
        fresh.close()
        return result

    for threads, owes_blind, owes_known in ((1, 0.60, 1.2), (8, 0.45, 0.6)):
        got = bench.alternate(native=lambda seed: native(threads, seed),
                              blind=lambda seed: sampan(threads, seed, False),
                              known=lambda seed: sampan(threads, seed, True))
        for kind, owes in (("blind", owes_blind), ("known", owes_known)):
            bench.line(f"page cache dropped, 115 KB, T={threads}, order {'known' if kind == 'known' else 'unknown'}, of native",
                       f"{kilo(got[kind])} of {kilo(got['native'])}", got[kind] / got["native"], owes)


def large(bench):
    """Samples of many megabytes, read whole, on the local disk only. Each pass finds a new mount: pages that are mapped
    are not dropped."""
    source = bench.world.make_set(8, 100 << 20, classes=1)
    mount, cache = warmed(bench, source)
    mount.close()

    def speed(where, threads, seed):
        forget_pages()
        result = epoch(where, threads, seed)
        return result["bytes"] / result["seconds"] / 1e6

    def sampan(threads, seed):
        fresh = Mount(bench.world, f"file://{source}", cache)
        try:
            return speed(fresh.where, threads, seed)
        finally:
            fresh.close()

    for threads in (1, 4):
        got = bench.alternate(native=lambda seed: speed(source, threads, seed), sampan=lambda seed: sampan(threads, seed))
        bench.line(f"large samples, page cache dropped, T={threads}, of native", f"{got['sampan']:,.0f} of {got['native']:,.0f} MB/s",
                   got["sampan"] / got["native"], 0.9)


def shards(bench):
    """Slices of big files that stay open."""
    source = bench.world.make_set(*((4, 32 << 20) if bench.world.quick else (8, 100 << 20)), classes=1)
    mount, _ = warmed(bench, source, "--profile", "shards")
    names = sorted(p.relative_to(source) for p in source.glob("*/*.bin"))
    slices = sum((source / n).stat().st_size for n in names) // (110 << 10)

    def read(where, threads, seed, passes=8):  # hot, one pass of the small set takes 24 ms
        return run_json(TOOLS / "slices", threads, 110 << 10, passes * slices, seed, *(where / n for n in names))["slices_per_s"]

    def cold(where, threads, seed):
        forget_pages()
        return read(where, threads, seed, passes=1)

    def read_back():
        """Both alike, whatever ran before: large folios re-read up to twice as fast as those of random reads."""
        forget_pages()
        for name in names:
            for where in (source, mount.where):
                with open(where / name, "rb", buffering=0) as f:
                    while f.read(1 << 20):
                        pass
        read(source, 8, 0, passes=1)
        read(mount.where, 8, 0, passes=1)

    read(mount.where, 8, 0, passes=1)
    bench.note(variant="mode", mode=mount.status()["mode"])
    for threads in (1, 8):
        for kind, measure, owes in (("hot", read, 0.93), ("dropped", cold, 0.9)):
            if kind == "hot":
                read_back()
            got = bench.alternate(native=lambda seed: measure(source, threads, seed),
                                  sampan=lambda seed: measure(mount.where, threads, seed))
            bench.line(f"big shards, slices of 110 KiB, {kind}, T={threads}, of native",
                       f"{kilo(got['sampan'])} of {kilo(got['native'])}", got["sampan"] / got["native"], owes)
    mount.close()


def walk(bench):
    """find + stat of everything."""
    source = bench.world.make_set(sizes(bench)[1], KB4)
    cache = bench.world.folder("cache")

    def pass_over(where):
        began = time.monotonic()
        found = subprocess.run(["find", str(where), "-type", "f", "-size", "+0", "-printf", "."], stdout=subprocess.PIPE, check=True)
        return len(found.stdout) / (time.monotonic() - began)

    first, second, native = [], [], []
    for repeat in range(bench.repeats):
        pass_over(source)
        native.append(pass_over(source))
        fresh = Mount(bench.world, f"file://{source}", cache)
        first.append(pass_over(fresh.where))
        second.append(max(pass_over(fresh.where) for _ in range(2)))
        fresh.close()
        bench.note(variant="walk", repeat=repeat, native=native[-1], first=first[-1], second=second[-1])
    middle = [sorted(v)[len(v) // 2] for v in (native, first, second)]
    bench.line("find + stat, first pass, of native", f"{kilo(middle[1])} of {kilo(middle[0])}", middle[1] / middle[0], 0.4)
    bench.line("find + stat, first pass, us an entry", "", 1e6 / middle[1], 4, at_least=False, unit=" us")
    bench.line("find + stat, second pass, of native", f"{kilo(middle[2])} of {kilo(middle[0])}", middle[2] / middle[0], 0.98)


# --- from a server ------------------------------------------------------------------------------------


def served(bench, files, size):
    source = bench.world.make_set(files, size)
    manifest = bench.world.manifest(source)
    paths = [str(p.relative_to(source)) for p in sorted(source.glob("*/*.bin"))]
    return source, paths, bench.world.nginx(source, manifest)


def fresh_mount(bench, port, *options):
    """A mount with an empty cache, which goes with it: a virtual machine pays its host for memory that it never
    touched (2 us a page, more than the sample's bytes cost), and plain GETs touch none."""
    cache = bench.world.folder("cache")
    mount = Mount(bench.world, f"http://127.0.0.1:{port}/manifest.tsv", cache, *options)
    mount.throw_away = cache
    return mount


def cold_from(bench, server, paths, gets, mounted, **also):
    """Reads and a warmup with nothing cached, of what curl gets from that server, which `gets` asks with so many connections, and what
    `also` do is shown; `mounted` makes a mount with an empty cache."""
    cpu = []

    def sampan(threads, seed):
        mount = mounted()
        before = mount.cpu()
        result = rate(epoch(mount.where, threads, seed))
        cpu.append((mount.cpu() - before) * 10000 / len(paths))
        mount.close()
        return result

    def warmup(_):
        mount = mounted()
        result = mount.warmup()
        mount.close()
        return result["samples"] / result["seconds"]

    for threads, owes in ((8, 0.8), (32, 0.7)):
        cpu.clear()
        got = bench.alternate(gets=lambda _: gets(threads), sampan=lambda seed: sampan(threads, seed),
                              **{name: lambda _, ask=ask: ask(threads) for name, ask in also.items()})
        bench.line(f"cold, {server} on this machine, 115 KB, T={threads}, of plain GETs",
                   f"{kilo(got['sampan'])} of {kilo(got['gets'])}" + "".join(f"; {name} {kilo(got[name])}" for name in also),
                   got["sampan"] / got["gets"], owes)
        bench.line(f"CPU seconds for 10 000 such samples, T={threads}", "", sorted(cpu)[len(cpu) // 2], 3, at_least=False, unit=" s")
    got = bench.alternate(gets=lambda _: gets(64), sampan=warmup)
    bench.line(f"warmup, {server} on this machine, 115 KB, of plain GETs",
               f"{kilo(got['sampan'])} of {kilo(got['gets'])}", got["sampan"] / got["gets"], 0.8)


def cold(bench):
    """From nginx, which has hardly more to do than to send files; a fifth of 2000 samples would be what curl or a mount does once."""
    _, paths, port = served(bench, 4 * sizes(bench)[0], KB115)
    cold_from(bench, "nginx", paths, lambda n: plain_gets(f"http://127.0.0.1:{port}", paths, n), lambda: fresh_mount(bench, port))


def cold_s3(bench):
    """From an S3 server that people run. Curl signs its requests as a mount does: the server asks more of itself for those."""
    source = bench.world.make_set(2 * sizes(bench)[0], KB115)
    paths = [str(p.relative_to(source)) for p in sorted(source.glob("*/*.bin"))]
    endpoint = f"http://127.0.0.1:{peer_programs.serve(bench.world, source)}"

    def mounted():
        cache = bench.world.folder("cache")
        mount = Mount(bench.world, f"s3://{peer_programs.BUCKET}/", cache, "--endpoint", endpoint)
        mount.throw_away = cache
        return mount

    def gets(connections, *options):
        return plain_gets(f"{endpoint}/{peer_programs.BUCKET}", paths, connections, *options)

    signed = ("--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{peer_programs.KEY}:{peer_programs.SECRET}")
    cold_from(bench, "MinIO", paths, lambda n: gets(n, *signed), mounted, unsigned=gets)


def far(bench):
    """20 ms away, link wide enough."""
    files = 400 if bench.world.quick else 1200
    _, paths, near = served(bench, files, KB115)
    port = bench.world.link(near, 10)

    def read(seed, known):
        spec = ORDER.format(seed)
        mount = fresh_mount(bench, port, *(("--sampler", spec) if known else ()))
        order = (None, "--sampler", spec) if known else (seed,)
        result = rate(epoch(mount.where, 8, *order))
        mount.close()
        return result

    def warmup(_):
        mount = fresh_mount(bench, port)
        result = mount.warmup()
        mount.close()
        return result["samples"] / result["seconds"]

    got = bench.alternate(gets=lambda seed: plain_gets(f"http://127.0.0.1:{port}", paths, 64), blind=lambda seed: read(seed, False),
                          known=lambda seed: read(seed, True), warmup=warmup)
    bench.line("20 ms away, 115 KB, T=8, order unknown, samples/s", "", got["blind"], 335)
    bench.line("20 ms away, 115 KB, T=8, order known, samples/s", "", got["known"], 1000)
    bench.line("20 ms away, warmup, of plain GETs", f"{kilo(got['warmup'])} of {kilo(got['gets'])}", got["warmup"] / got["gets"], 0.8)


def narrow(bench):
    """50 Mbit/s: the share of one large GET's goodput."""
    goodput = {}
    source = bench.world.make_set(1, 8 << 20, classes=1)
    port = bench.world.link(bench.world.nginx(source), 1, 6250000)
    whole = bench.alternate(large=lambda _: plain_gets(f"http://127.0.0.1:{port}", ["class-00/0000000.bin"], 1) * (8 << 20))["large"]
    for size, files, owes in ((KB115, 60, 0.95), (KB4, 1500, 0.80)):
        _, paths, near = served(bench, files, size)
        port = bench.world.link(near, 1, 6250000)

        def warmup(_):
            mount = fresh_mount(bench, port)
            result = mount.warmup()
            mount.close()
            return result["bytes"] / result["seconds"]

        goodput[size] = bench.alternate(sampan=warmup)["sampan"]
        bench.line(f"over 50 Mbit/s, {size // 1000} KB, of one large GET", f"{goodput[size] / 1e6:.2f} of {whole / 1e6:.2f} MB/s",
                   goodput[size] / whole, owes)


# --- size ---------------------------------------------------------------------------------------------


def million(bench):
    """Many samples: time until the first read, memory, an idle mount."""
    count = int(os.environ.get("BENCH_SAMPLES", 100000 if bench.world.quick else 1000000))
    where = bench.world.folder("many")
    (where / "one.bin").write_bytes(os.urandom(KB4))
    with open(where / "manifest.tsv", "w", encoding="ascii") as out:
        out.writelines(f"set/c{i % 1000:04d}/{i:08d}.bin\t{KB4}\t1700000000\n" for i in range(count))
    port = bench.world.nginx(where, "location /set/ { rewrite ^ /one.bin break; }")
    catalog = where / "set.catalog"
    scanned = run_json(os.environ["SAMPAN"], "scan", f"http://127.0.0.1:{port}/manifest.tsv", "-o", catalog, "--json", "--quiet")
    bench.line("scan of a manifest, samples/s", f"{scanned['samples']} samples", scanned["samples"] / scanned["seconds"], 20000)

    def to_first_read(_):
        began = time.monotonic()
        mount = fresh_mount(bench, port, "--catalog", catalog)
        (mount.where / "set/c0007/00000007.bin").read_bytes()
        took = time.monotonic() - began
        bench.note(variant="resident", resident=mount.resident())
        mount.close()
        return took

    bench.line(f"mount of {count} samples to the first read", "", bench.alternate(mount=to_first_read)["mount"], 0.3,
               at_least=False, unit=" s")
    mount = fresh_mount(bench, port, "--catalog", catalog)
    (mount.where / "set/c0007/00000007.bin").read_bytes()
    bench.line(f"resident, {count} samples mounted", "", mount.resident() / 2**20, 128, at_least=False, unit=" MiB")
    before = mount.cpu()
    time.sleep(10)
    bench.line("CPU of an idle mount, percent of one core", "", (mount.cpu() - before) * 10, 0.1, at_least=False, unit=" %")
    mount.close()


def memory(bench):
    """Resident memory while eight readers take 100 000 samples cold."""
    count = 20000 if bench.world.quick else 100000
    where = bench.world.folder("many")
    (where / "one.bin").write_bytes(os.urandom(KB4))
    with open(where / "manifest.tsv", "w", encoding="ascii") as out:
        out.writelines(f"set/c{i % 100:04d}/{i:08d}.bin\t{KB4}\t1700000000\n" for i in range(count))
    port = bench.world.nginx(where, "location /set/ { rewrite ^ /one.bin break; }")
    mount = fresh_mount(bench, port)
    most, stop = [0], threading.Event()

    def watch():
        while not stop.wait(0.05):
            most[0] = max(most[0], mount.resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    before = mount.cpu()
    result = epoch(mount.where, 8, 1)
    cpu = mount.cpu() - before
    stop.set()
    watcher.join()
    rate(result)
    bench.line(f"most resident, {count} samples of 4 KB read cold by 8", f"{kilo(result['samples_per_s'])}", most[0] / 2**20, 96,
               at_least=False, unit=" MiB")
    bench.line("CPU seconds for 10 000 samples of 4 KB", "", cpu * 10000 / count, None, unit=" s")
    mount.close()


# --- the order of training --------------------------------------------------------------------------


def numpy_seconds(samples):
    """numpy's own shuffle of as many numbers, or None without numpy."""
    try:
        import numpy
    except ImportError:
        return None
    numbers = numpy.arange(samples)
    began = time.perf_counter()
    numpy.random.RandomState(0).shuffle(numbers)
    return time.perf_counter() - began


def order(bench):
    for samples, owes in ((1281167, 0.060),) if bench.world.quick else ((1281167, 0.060), (100000000, 8.0)):
        best = None
        for _ in range(3):
            got = run_json(TOOLS / "bench-order", "random,ranks=8,batch-size=256,shuffle=true", str(samples))
            bench.note(samples=samples, **got)
            if best is None or got["make_s"] < best["make_s"]:
                best = got
        other = numpy_seconds(samples)
        figures = "" if other is None else f"numpy's shuffle alone {other:.3f} s"
        bench.line(f"the order of {samples:,} samples, shuffled, one core", figures, best["make_s"] + best["read_s"],
                   owes, at_least=False, unit=" s")


ROWS = {
    "hot": hot, "first-epoch": first_epoch, "dropped": dropped, "large": large, "shards": shards, "walk": walk, "cold": cold, "cold-s3": cold_s3, "far": far,
    "narrow": narrow, "million": million, "memory": memory, "order": order,
}
