#!/usr/bin/env bash
# sampan.Loader over a mount gives numpy arrays that look at the loader's memory, are taken by DLPack, stay
# what they are while they are kept, and go on from a state; bad pictures end it with path and reason, or are
# left out and counted.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
use_loader
"$SAMPAN_BUILD/tools/make-pictures" "$SRC" 3 12 60 50 --bad
mount_set "file://$SRC"
cat >"$T/check.py" <<'PY'
import sys

import numpy
import sampan

mount, n = sys.argv[1], 43


def same(what, got, want):
    assert got == want, f"{what}: got {got}, want {want}"


def refused(kind, part, fn):
    try:
        fn()
    except kind as why:
        assert part in str(why), why
        return
    raise AssertionError(f"not refused: {part}")


spec = "torch-distributed,seed=1"
options = {"batch_size": 8, "size": (20, 24), "policy": "skip"}
loader = sampan.Loader(mount, spec, **options)
same("batches", len(loader), 6)
same("classes", loader.classes, ["class-000", "class-001", "class-002"])
kept, copies, numbers = [], [], []
for batch in loader:
    images, labels = batch
    assert batch[0] is images and batch[1] is labels and batch[-1] is labels
    same("shape", images.shape, (len(labels), 20, 24, 3))
    same("types", (images.dtype, labels.dtype), (numpy.float32, numpy.int32))
    same("labels", [loader.path(int(i))[6:9] for i in batch.numbers], [f"{i:03}" for i in labels])
    same("DLPack", numpy.from_dlpack(batch).ctypes.data, images.ctypes.data)
    kept.append(images)
    copies.append(images.copy())
    numbers += batch.numbers.tolist()
same("looking at the loader's memory", [k.flags.owndata for k in kept], [False] * 3 + [True] * 3)
assert all(numpy.array_equal(k, c) for k, c in zip(kept, copies)), "a batch that was kept has changed"
same("samples", len(numbers), n - 3)
assert loader.figures()["skipped"] >= 3
whys = {why for _, why in loader.skips()}
same("reasons", sorted(whys), [
    "sample 12 (class-000/bad-cut.jpg): cut off: " + next(w for w in whys if "bad-cut" in w).split("cut off: ")[1],
    "sample 13 (class-000/bad-empty.jpg): an empty file",
    "sample 14 (class-000/bad-png.jpg): cut off: 12 bytes without the mark of the end"])
loader.close()
assert all(numpy.array_equal(k, c) for k, c in zip(kept, copies)), "closing took the arrays away"
refused(ValueError, "closed", lambda: len(loader))
del kept, images

# The same again, in two halves.
first = sampan.Loader(mount, spec, **options)
half = iter(first)
pixels = [next(half).images.copy() for _ in range(3)]
state = first.state_dict()
second = sampan.Loader(mount, spec, threads=3, **options)
second.load_state_dict(state)
second.set_epoch(0)  # as loops have it: its rest stays
pixels += [batch.images.copy() for batch in second]
assert all(numpy.array_equal(p, c) for p, c in zip(pixels, copies)) and len(pixels) == 6, "other pixels after a resume"
# A state of just after the last batch: of its epoch nothing is left, and it is not read once more.
done = second.state_dict()
for epochs, set_before in (([1], []), ([None, 1], [0]), ([1], [0, 1]), ([1], [1]), ([0], [2, 0])):
    second.load_state_dict(done)
    for epoch in set_before:
        second.set_epoch(epoch)
    for epoch in epochs:
        batch = next(iter(second), None)
        same(f"after the end, and epochs {set_before} set", batch and batch.epoch, epoch)
second.load_state_dict(done)
second.set_epoch(0)
same("who is stopped before the next batch has the state that was loaded", second.state_dict(), done)
second.set_epoch(7)
same("a state between epochs", second.state_dict(), sampan.Loader(mount, f"{spec},epoch=7", **options).state_dict())
batch = next(iter(second))
same("an epoch that is set", (batch.epoch, batch.step), (7, 0))
same("and the mount hears it", sampan.status(mount)["order"]["sampler"].split(",")[0], "torch-distributed")

# With another seed the rest of the epoch is that of before, and the mount hears of ours with the epoch after it.
def told():
    return sampan.status(mount)["order"]["sampler"].split("seed=")[1].split(",")[0]


reseeded = sampan.Loader(mount, "torch-distributed,seed=2", resume=state, depth=2, **options)  # of 3 batches 2 are in memory
same("told with the rest", told(), "1")
rest = [batch.images.copy() for batch in reseeded]
assert all(numpy.array_equal(p, c) for p, c in zip(rest, copies[3:], strict=True)), "another rest"
batch = next(iter(reseeded))
same("told with the next epoch", (batch.epoch, told()), (1, "2"))

whole = sampan.Loader(mount, "sequence", batch_size=n, format="uint8", size=16, crop="none", policy="skip", epochs=1)
(batch,) = whole
same("bytes", (batch.images.dtype, batch.images.shape), (numpy.uint8, (n - 3, 16, 16, 3)))
same("skipped", batch.skipped, 3)
same("no epoch is left", list(whole), [])
refused(sampan.LoaderError, "sample 12 (class-000/bad-cut.jpg): cut off: ", lambda: list(sampan.Loader(mount, batch_size=8)))
with open(sys.argv[2], "w", encoding="utf-8") as listed:
    listed.writelines(f"{whole.path(i)} 0\n" for i in (0, 12))
    listed.write("class-000/gone.jpg 0\n")
refused(FileNotFoundError, "sample 2 (class-000/gone.jpg): open: No such file",
        lambda: list(sampan.Loader(mount, samples=sys.argv[2], policy="skip")))
refused(FileNotFoundError, "/nonexistent", lambda: sampan.Loader("/nonexistent"))
refused(ValueError, "randm", lambda: sampan.Loader(mount, "randm"))
refused(ValueError, 'crop="left"', lambda: sampan.Loader(mount, crop="left"))
PY
"$NUMPY_PYTHON" "$T/check.py" "$MNT" "$T/list" || fail "the module"

# Beside a package that brings a JPEG library of the same name, older, as torchvision does: imported first, or else told what to do.
name=$(ldd "$SAMPAN_LOADER_LIBRARY" | sed -n 's/^[[:space:]]*\(libjpeg[^ ]*\) =>.*/\1/p')
if [ -n "$name" ] && command -v cc >/dev/null; then
    cc -shared -x c /dev/null -Wl,-soname,"$name" -o "$T/other.so"
    "$NUMPY_PYTHON" -c 'import ctypes, sys, sampan; ctypes.CDLL(sys.argv[1]); print(len(sampan.Loader(sys.argv[2])))' "$T/other.so" "$MNT" ||
        fail "the other library is in its way"
    ! "$NUMPY_PYTHON" -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1]); import sampan; sampan.Loader(sys.argv[2])' "$T/other.so" "$MNT" 2>"$T/why" ||
        fail "two libraries of one name: has it changed which one counts?"
    grep -q "ImportError: sampan.Loader: .*import sampan before it" "$T/why" || fail "$(cat "$T/why")"
fi
unmount
