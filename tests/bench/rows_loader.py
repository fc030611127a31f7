"""Rows of the loader: straight from warm packs beside open, read, close of native files; decoding beside the JPEG
library alone; PyTorch's DataLoader where there is one."""
import json
import os
import resource
import statistics
import subprocess
from pathlib import Path

from world import SAMPAN, TOOLS, epoch, run_json
from rows import KB4, KB115, kilo, rate, sizes, warm_native, warmed

TRAIN = Path(SAMPAN).parent / "sampan-train"


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


def torch_python():
    """A Python that has torch and torchvision; make/bench.mk says where."""
    python = os.environ.get("TORCH_PYTHON", "python3")
    has = subprocess.run([python, "-c", "import torch, torchvision"], capture_output=True, check=False)
    if has.returncode:
        raise RuntimeError(f"no torch and torchvision for {python} (make conformance LOADERS=1 fetches them, or TORCH_PYTHON=)")
    return python


DATA_LOADER = """
import json, sys, time, torch, torchvision as v
t = v.transforms
s = v.datasets.ImageFolder(sys.argv[1], t.Compose([t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.ToTensor(),
    t.Normalize([.485, .456, .406], [.229, .224, .225])]))
d = torch.utils.data.DataLoader(s, 32, True, num_workers=2, persistent_workers=True)
for _ in d: pass
began = time.monotonic()
n = sum(len(y) for _ in range(3) for _, y in d)
print(json.dumps({"samples_per_s": n / (time.monotonic() - began)}))
"""


def beside_torch(bench):
    """As many workers, the same batches of 32, the same pictures of 224 x 224, the same mount."""
    python = torch_python()
    mount, _ = warmed(bench, pictures(bench))
    got = bench.alternate(
        torch=lambda seed: run_json(python, "-c", DATA_LOADER, mount.where)["samples_per_s"],
        loader=lambda seed: loader(bench, "decode", mount.where, 2, 3, "on"))
    bench.line("loader, 2 threads, of PyTorch's DataLoader with 2 workers on the same mount",
               f"{kilo(got['loader'])} of {kilo(got['torch'])}", got["loader"] / got["torch"], 1.5)
    mount.close()


def stall(bench):
    """Each batch is consumed in a step, asleep, that lasts as long as decoding a batch takes where nothing else waits."""
    mount, _ = warmed(bench, pictures(bench))

    def share(_):
        alone = loader(bench, "decode", mount.where, 2, 2, "on")
        paced = run_json(TOOLS / "bench-loader", "decode", mount.where, 2, 3, "on", 32 / alone)
        bench.note(variant="paced", alone=alone, result=paced)
        return 100 * paced["stall"]

    bench.line("input stall, a step as long as the decoding of its batch", "T=2",
               bench.alternate(stall=share)["stall"], 1, at_least=False, unit=" %")
    mount.close()


TORCH_STEP = """
import json, statistics, sys, time, torch, torchvision
batch, side, steps = map(int, sys.argv[1:])
torch.manual_seed(0)
net = torchvision.models.resnet18(num_classes=10).to(memory_format=torch.channels_last).train()
learn = torch.optim.SGD(net.parameters(), 0.01, 0.9)
x = torch.randn(batch, 3, side, side).to(memory_format=torch.channels_last)
y = torch.randint(0, 10, (batch,))
took = []
for _ in range(steps):
    began = time.monotonic()
    learn.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    learn.step()
    took.append(time.monotonic() - began)
print(json.dumps({"seconds": statistics.median(took[2:])}))
"""


def train_step(bench):
    """A ResNet-18's step on the CPU, two threads, fp32; PyTorch in NHWC, as the trainer has it."""
    python, batch, side, steps = torch_python(), 16, 112, 12

    def ours(_):
        done = subprocess.run(
            [TRAIN, "--model", "resnet18", "--device", "cpu", "--trainer_count", "2", "--data", f"synthetic:{batch * steps},10",
             "--image", str(side), "--batch_size", str(batch), "--num_passes", "1", "--log_period", "1", "--log_level", "error",
             "--learning_rate", "0.01", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace").strip()[-400:])
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return batch / statistics.median([line["samples_per_s"] for line in lines if line["event"] == "step"][2:])

    got = bench.alternate(torch=lambda _: run_json(python, "-c", TORCH_STEP, batch, side, steps)["seconds"], ours=ours)
    bench.line(f"ResNet-18 on the CPU, {batch} of {side}x{side}: a step, of PyTorch's",
               f"{got['ours']:.3f} s of {got['torch']:.3f} s", got["ours"] / got["torch"], 1.5, at_least=False)


ROWS = {"loader-direct": direct, "loader-decode": decoding, "loader-stall": stall, "loader-torch": beside_torch,
        "train-step": train_step}
