"""Rows of the loader: straight from warm packs beside open, read, close of native files; decoding beside the JPEG
library alone; PyTorch's DataLoader where there is one."""
import importlib.util
import resource
import statistics
import subprocess

from world import TOOLS, epoch, run_json
from rows import KB4, KB115, kilo, rate, sizes, warm_native, warmed


def loader(bench, kind, where, threads, epochs, *how):
    result = run_json(TOOLS / "bench-loader", kind, where, threads, epochs, *how)
    bench.note(variant=f"loader {kind}", threads=threads, result=result)
    return result["samples_per_s"]


def with_cpu(measure, samples, cpu):
    """What `measure` gives; adds to `cpu` the CPU microseconds that a sample took, the program's start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = measure()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu.append(1e6 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / samples)
    return result


def direct(bench):
    """Both sides copy every byte into memory of their own, from a page cache that holds all of it. Beside T threads, the
    loader's consumer is one more where it would wait: CPU time says what a sample costs, however many take part."""
    for size, files, owes in ((KB115, sizes(bench)[0], 1.5), (KB4, sizes(bench)[1], 5)):
        source = bench.world.make_set(files, size)
        mount, _ = warmed(bench, source)
        warm_native(source)
        passes = max(15, 200000 // files)  # beside that, a program's start is little
        for threads in (1, 2):
            cpu = {"native": [], "loader": []}
            got = bench.alternate(
                native=lambda seed: with_cpu(
                    lambda: rate(epoch(source, threads, seed, epochs=passes)), files * passes, cpu["native"]),
                loader=lambda seed: with_cpu(
                    lambda: loader(bench, "raw", mount.where, threads, passes, "only"), files * (passes + 1), cpu["loader"]))
            spent = {name: statistics.median(values) for name, values in cpu.items()}
            bench.line(f"loader from packs, {size // 1000} KB, T={threads}, of native open+read+close",
                       f"{kilo(got['loader'])} of {kilo(got['native'])}", got["loader"] / got["native"], owes)
            bench.line("… CPU time of a native sample, of the loader's", f"{spent['native']:.2f} us of {spent['loader']:.2f} us",
                       spent["native"] / spent["loader"], owes)
        mount.close()


def pictures(bench):
    where = bench.world.base / "pictures-500x375"
    if not where.exists():
        subprocess.run([TOOLS / "make-pictures", where, "10", "40", "500", "375"], check=True)
    return where


def decoding(bench):
    source = pictures(bench)
    mount, _ = warmed(bench, source)
    threads = 2
    got = bench.alternate(
        jpeg=lambda seed: loader(bench, "jpeg", source, threads, 2),
        loader=lambda seed: loader(bench, "decode", mount.where, threads, 3))
    bench.line(f"loader, pictures of 500x375 to 224x224, T={threads}, of the JPEG library alone",
               f"{kilo(got['loader'])} of {kilo(got['jpeg'])}", got["loader"] / got["jpeg"], 0.95)
    mount.close()


def beside_torch(bench):
    if not importlib.util.find_spec("torch") or not importlib.util.find_spec("torchvision"):
        raise RuntimeError("no torch and torchvision here: the row beside PyTorch's DataLoader is left out")
    source = pictures(bench)
    mount, _ = warmed(bench, source)
    program = (
        "import json, sys, time, torch, torchvision as v\n"
        "t = v.transforms\n"
        "s = v.datasets.ImageFolder(sys.argv[1], t.Compose([t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.ToTensor(),"
        " t.Normalize([.485, .456, .406], [.229, .224, .225])]))\n"
        "d = torch.utils.data.DataLoader(s, 256, True, num_workers=2, persistent_workers=True)\n"
        "list(d)\nb = time.monotonic()\nn = sum(len(y) for _ in range(3) for _, y in d)\n"
        "print(json.dumps({'samples_per_s': n / (time.monotonic() - b)}))\n")
    got = bench.alternate(
        torch=lambda seed: run_json("python3", "-c", program, mount.where)["samples_per_s"],
        loader=lambda seed: loader(bench, "decode", mount.where, 2, 3))
    bench.line("loader, 2 threads, of PyTorch's DataLoader with 2 workers on the same mount",
               f"{kilo(got['loader'])} of {kilo(got['torch'])}", got["loader"] / got["torch"], 1.5)
    mount.close()


ROWS = {"loader-direct": direct, "loader-decode": decoding, "loader-torch": beside_torch}
