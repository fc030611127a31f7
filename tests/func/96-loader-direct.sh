#!/usr/bin/env bash
# The loader reads a warm set straight from its packs: every byte is that of the source and no sample is
# read through the mount; the pixels are those that come through the mount, however many threads decode.
# The mount hears sampler and epoch, and nobody waits until it has. When the owner is killed, reading goes on, and directly again.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
use_loader
"$SAMPAN_BUILD/tools/make-pictures" "$SRC" 4 25 90 70
mount_set "file://$SRC"
warm_all
cat >"$T/check.py" <<'PY'
import os
import signal
import subprocess
import sys
import time

import numpy
import sampan

mount, source, cache, n = *sys.argv[1:4], 100


def same(what, got, want):
    assert got == want, f"{what}: got {got}, want {want}"


def until(what, fn):
    give_up = time.monotonic() + 600
    while not fn():
        assert time.monotonic() < give_up, f"never: {what}"
        time.sleep(0.02)


def bytes_of_epoch(loader):
    seen = []
    for batch in loader:
        for number, data, label in zip(batch.numbers, batch.images, batch.labels):
            path = loader.path(int(number))
            with open(os.path.join(source, path), "rb") as f:
                assert data.tobytes() == f.read(), f"other bytes of {path}"
            same(f"the label of {path}", loader.classes[label], path.split("/")[0])
            seen.append(int(number))
    return seen


raw = sampan.Loader(mount, "torch-distributed,seed=5", batch_size=8, format="raw", direct="only", epochs=2)
figures = raw.figures()
same("known after opening", (figures["direct_known"], figures["direct_why"]), (n, ""))
order = sampan.status(mount)["order"]
assert order["sampler"].startswith("torch-distributed,"), order
for epoch in range(2):
    same("every sample once", sorted(bytes_of_epoch(raw)), list(range(n)))
until("the mount was told the last epoch", lambda: sampan.status(mount)["order"]["epoch"] == 1)
figures = raw.figures()
same("directly, and through the mount", (figures["direct_samples"], figures["mount_samples"]), (2 * n, 0))
same("reasons", (figures["direct_why"], figures["mount_why"], figures["corrupt"]), ("", "", 0))

# More threads than there are cores: some stay aside, and come back where those before them wait.
crowd = sampan.Loader(mount, "torch-distributed,seed=7", batch_size=33, format="raw", direct="only", threads=17, epochs=20)
for epoch in range(20):
    same("every sample once", sorted(bytes_of_epoch(crowd)), list(range(n)))
    time.sleep(0.01 * (epoch % 3))
same("directly", crowd.figures()["direct_samples"], 20 * n)


def pixels(**options):
    loader = sampan.Loader(mount, "torch-distributed,seed=5", batch_size=8, size=48, epochs=2, **options)
    epochs = []
    for _ in range(2):
        epochs += [batch.images.copy() for batch in loader]
    return numpy.concatenate(epochs), loader.figures()


want, figures = pixels(direct="off", threads=1)
same("through the mount", (figures["mount_samples"], figures["direct_samples"]), (2 * n, 0))
for threads in (1, 5):
    got, figures = pixels(direct="only", threads=threads)
    same("directly", (figures["mount_samples"], figures["direct_samples"]), (0, 2 * n))
    assert numpy.array_equal(got, want), f"{threads} threads: other pixels"

# An owner that does nothing, and no keeper to replace it: epochs go on all the same.
owner = sampan.status(mount)["pid"]
with open(f"/proc/{owner}/stat", encoding="ascii") as f:
    keeper = int(f.read().rpartition(")")[2].split()[1])
raw = sampan.Loader(mount, "torch-distributed,seed=5", batch_size=8, format="raw", direct="only", epochs=6)
same("every sample once", sorted(bytes_of_epoch(raw)), list(range(n)))
for process in (keeper, owner):
    os.kill(process, signal.SIGSTOP)
wakes = subprocess.Popen(["sh", "-c", f"sleep 600; kill -CONT {owner} {keeper}"], start_new_session=True)
try:
    for epoch in range(1, 6):
        same("every sample once", sorted(bytes_of_epoch(raw)), list(range(n)))
    same("epochs that waited for the owner", wakes.poll(), None)
finally:
    os.killpg(wakes.pid, signal.SIGKILL)
    for process in (owner, keeper):
        os.kill(process, signal.SIGCONT)
until("the mount was told the last epoch", lambda: sampan.status(mount)["order"]["epoch"] == 5)
raw_path = raw.path(0)
raw.close()

# A byte of a pack that has changed: that sample comes through the mount, which repairs it, and is no longer known.
with open(os.path.join(source, raw_path), "rb") as f:
    sought = f.read()
changed = 0
for folder, _, names in os.walk(cache):
    for name in (name for name in names if name.endswith(".pack")):
        with open(os.path.join(folder, name), "r+b") as f:
            at = f.read().find(sought)
            if at >= 0:
                f.seek(at + 100)
                f.write(bytes([sought[100] ^ 1]))
                changed += 1
same("packs that have the sample", changed, 1)
auto = sampan.Loader(mount, "torch-distributed,seed=5", batch_size=8, format="raw")
until("all is known", lambda: auto.figures()["direct_known"] == n)
same("every sample once", sorted(bytes_of_epoch(auto)), list(range(n)))
figures = auto.figures()
same("of a changed byte", (figures["corrupt"], figures["direct_known"]), (1, n - 1))
auto.close()

auto = sampan.Loader(mount, "torch-distributed,seed=5", batch_size=8, format="raw", depth=2)
until("directly", lambda: auto.figures()["direct_known"] == n)
reading = iter(auto)
next(reading)
os.kill(sampan.status(mount)["pid"], signal.SIGKILL)
for _ in reading:
    pass


def an_epoch_directly():
    before = auto.figures()["direct_samples"]
    same("after the kill", len(bytes_of_epoch(auto)), n)
    return auto.figures()["direct_samples"] - before >= n


until("directly again", an_epoch_directly)
auto.close()
PY
"$NUMPY_PYTHON" "$T/check.py" "$MNT" "$SRC" "$CACHE" || fail "the loader"
unmount
