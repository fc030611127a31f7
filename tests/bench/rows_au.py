"""Accelerator utilisation of MLPerf Storage's workloads (facts of `sampan bench au`): a plain folder, a warm mount and a
bucket that s3fs mounts. The order's being known is against that benchmark's rules: the two are never one figure."""
import peer_programs
from rows import warmed
from rows_article import bucket
from world import SAMPAN, Mount, forget_pages, run_json

# Bytes of a sample, and samples: a few steps; the benchmark's own sets are far larger.
WORKLOADS = {"resnet50": (114660, 4000), "retinanet": (322957, 960), "cosmoflow": (2828486, 300), "unet3d": (146600628, 14)}
HOT = 99  # percent that a mount owes once the page cache has its samples; before, what the benchmark asks for


def measured(bench, model, where, mode, repeat):
    """AU in percent of two epochs: the first finds an empty page cache, the second a full one."""
    forget_pages()
    report = run_json(SAMPAN, "bench", "au", where, "--model", model, "--mode", mode, "--epochs", 2, "--json")
    bench.note(variant=f"{model} {mode}", repeat=repeat, report=report)
    return [100 * run["au"] for run in report["runs"]], 100 * report["min_au"]


def workload(bench, model):
    size, files = WORKLOADS[model]
    source = bench.world.make_set(files, size)
    mount, cache = warmed(bench, source)
    mount.close()

    def mounted(mode, repeat):
        """A mount that has not touched its packs: pages that are mapped are not dropped."""
        fresh = Mount(bench.world, f"file://{source}", cache)
        try:
            return measured(bench, model, fresh.where, mode, repeat)
        finally:
            fresh.close()

    sides = {"plain folder": lambda repeat: measured(bench, model, source, "blind", repeat),
             "warm mount, blind": lambda repeat: mounted("blind", repeat),
             "warm mount, clairvoyant": lambda repeat: mounted("clairvoyant", repeat)}
    got, asked = {name: [] for name in sides}, 0
    for repeat in range(bench.repeats):
        for name, side in sides.items():
            epochs, asked = side(repeat)
            got[name].append(epochs)
    for name, epochs in got.items():
        dropped, hot = (sorted(e[i] for e in epochs)[len(epochs) // 2] for i in (0, 1))
        ours = name != "plain folder"
        bench.line(f"AU, {model}, {name}, page cache dropped", f"{files} samples", dropped, asked if ours else None, unit=" %")
        bench.line("… the epoch after it", "", hot, HOT if ours else None, unit=" %")
    mount = Mount(bench.world, f"file://{source}", cache)
    mount.throw_away = cache
    picture = bench.world.base / f"au-{model}.svg"
    run_json(SAMPAN, "bench", "au", source, "--model", model, "--compare", mount.where, "--svg", picture, "--json")
    mount.close()


def plain_mount(bench, model):
    """s3fs without a cache, the store on this machine."""
    size, files = WORKLOADS[model]
    endpoint = f"http://127.0.0.1:{bucket(bench, bench.world.make_set(files, size))}"
    got = []
    for repeat in range(bench.repeats):
        mount = peer_programs.s3fs(bench.world, endpoint, "")
        try:
            got.append(measured(bench, model, mount.where, "blind", repeat)[0][0])
        finally:
            mount.close()
    bench.line(f"AU, {model}, a bucket that s3fs mounts", f"{files} samples", sorted(got)[len(got) // 2], None, unit=" %")


def au(bench):
    for model in WORKLOADS:
        workload(bench, model)


def au_plain_mount(bench):
    for model in WORKLOADS:
        plain_mount(bench, model)


# Not of `make bench`: they run when they are named.
NAMED = {"au": au, "au-plain-mount": au_plain_mount}
