#!/usr/bin/env bash
# sampan.Loader where programs do what they should not, or what they may at any moment: a process is forked off, a loader
# is pickled, threads take batches at once, Ctrl-C comes while a sample hangs, a state or a number is none. Nothing
# hangs, no batch's memory is lost, and the error says what to do.
. "$SAMPAN_TESTS/lib/common.sh"
use_loader
"$SAMPAN_BUILD/tools/make-pictures" "$SRC" 3 12 60 50
mkfifo "$T/hangs"
cp -r "$SRC" "$T/one-hangs"
(cd "$T/one-hangs" && find . -type f | sort >"$T/list")
ln -f "$T/hangs" "$T/one-hangs/class-001/000004.jpg"
cat >"$T/check.py" <<'PY'
import os
import pickle
import signal
import sys
import threading
import time

import numpy
import sampan

folder, one_hangs, names = sys.argv[1:]
signal.alarm(120)  # whatever hangs
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background of a script


def same(what, got, want):
    assert got == want, f"{what}: got {got}, want {want}"


def refused(kind, part, fn, *args, **keys):
    try:
        got = fn(*args, **keys)
    except kind as why:
        assert part in str(why), why
        return
    raise AssertionError(f"not refused: {part}: {got}")


def opened(**keys):
    return sampan.Loader(folder, "torch-distributed,seed=1", **{"batch_size": 4, "size": 16, **keys})


# A process forked off has none of the threads: it may neither wait for them nor end them.
loader = opened()
batches = iter(loader)
batch = next(batches)
child = os.fork()
if not child:
    signal.alarm(60)
    for use in (lambda: next(batches), lambda: next(iter(loader)), loader.state_dict, loader.figures, lambda: len(loader)):
        refused(RuntimeError, "make one in each", use)
    del batch, batches
    loader.close()
    del loader
    os._exit(0)
same("how the child ended", os.waitpid(child, 0)[1], 0)
same("and here it goes on", next(batches).step, 1)
refused(TypeError, "make one in each process", pickle.dumps, loader)
same("a state is text", pickle.loads(pickle.dumps(loader.state_dict())), loader.state_dict())

# A state that is none: the loader stays what it was.
good = loader.state_dict()
refused(ValueError, "cut off", loader.load_state_dict, {"token": good["token"][:-1]})
for bad in {}, None, {"token": None}, {"token": b"x"}, "x":
    refused(ValueError, "want what state_dict() gave", loader.load_state_dict, bad)
same("it goes on", next(batches).step, 2)
loader.load_state_dict(good)
same("from a state", next(iter(loader)).step, 2)
same("who iterated over what it was is at the end", list(batches), [])

# So it is where a loader is made: what is no state does not begin anew.
for bad in {}, "", {"token": ""}, 5, b"x", True:
    refused(ValueError, "want what state_dict() gave", opened, resume=bad)
refused(ValueError, "a NUL byte", opened, resume="x\0")
for state in good, good["token"]:
    same("made from a state", next(iter(opened(resume=state))).step, 2)

refused(ValueError, "epoch -1: want", loader.set_epoch, -1)

# Numbers that fit into no field of the library.
for name, value in (("batch_size", -1), ("batch_size", 2 ** 32 + 4), ("seed", -1), ("seed", 2 ** 64), ("epochs", -1), ("size", -3),
                    ("max_pixels", -1), ("threads", -2), ("depth", 2 ** 33)):
    refused(ValueError, f"{name}={value}: want 0 to ", opened, **{name: value})
for value in (1, 2), (1, 2, 3, 4), (float("nan"), 0, 0), (1e38, 1, 1), 3, "abc", (1, 2, None):
    refused(ValueError, "want three numbers", opened, mean=value)
    refused(ValueError, "want three numbers", opened, std=value)
for value in (3,), (), (1, 2, 3), "24":
    refused(ValueError, "want one number, or (height, width)", opened, size=value)
for name in "format", "crop", "policy", "direct":
    refused(ValueError, "unknown (known: ", opened, **{name: ["x"]})
same("the largest seed", next(iter(opened(seed=2 ** 64 - 1))).step, 0)

# Threads that take batches at once get each once, and all end with the epoch that they began in.
loader = opened(batch_size=1, depth=8)
for epoch in range(2):
    taken, iterators = [], [iter(loader) for _ in range(4)]
    takers = [threading.Thread(target=lambda batches: taken.extend((b.epoch, int(b.numbers[0])) for b in batches), args=(i,)) for i in iterators]
    for t in takers:
        t.start()
    for t in takers:
        t.join()
    same("samples", sorted(taken), [(epoch, i) for i in range(36)])

# However many they are, beside few batches; and what they keep is what one alone is given.
want = {int(b.numbers[0]): b.images.copy() for b in opened(batch_size=1, seed=3)}
for depth in 2, 3, 4:
    loader, kept, errors = opened(batch_size=1, depth=depth, seed=3), [], []
    batches = iter(loader)

    def take_all():
        try:
            kept.extend(batches)
        except Exception as why:
            errors.append(why)
    takers = [threading.Thread(target=take_all) for _ in range(8)]
    for t in takers:
        t.start()
    for t in takers:
        t.join()
    same("errors", errors, [])
    same("samples", sorted(int(b.numbers[0]) for b in kept), list(range(36)))
    for b in kept:
        assert numpy.array_equal(b.images, want[int(b.numbers[0])]), "a batch that is kept has changed"

# Numbers of numpy, and names that C would cut off.
loader = opened(size=numpy.int64(16), batch_size=numpy.uint32(4))
loader.set_epoch(numpy.int64(1))
batch = next(iter(loader))
same("of numpy", (batch.images.shape, batch.epoch), ((4, 16, 16, 3), 1))
same("path", loader.path(batch.numbers[0]), loader.path(int(batch.numbers[0])))
for number in 36, -1, 2 ** 64, 2 ** 64 + 5:
    refused(IndexError, f"no sample {number}", loader.path, number)
refused(TypeError, "size=16.5: want a whole number", opened, size=16.5)
refused(TypeError, "batch_size=4.0: want a whole number", opened, batch_size=4.0)
refused(ValueError, "a NUL byte", sampan.Loader, "pictures\0x")
refused(ValueError, "a NUL byte", opened, samples="list\0x")

# Ctrl-C while an array ends, out of which Python lets no exception: it comes with the next batch, and is not lost.
class Interrupted:
    def __init__(self, lib):
        self.lib = lib

    def __getattr__(self, name):
        return getattr(self.lib, name)

    def loader_release(self, *arguments):
        self.lib.loader_release(*arguments)
        signal.raise_signal(signal.SIGINT)


loader = opened(batch_size=4)
handle, batches = loader._handle, iter(loader)
array = next(batches)
handle.lib = Interrupted(handle.lib)
del array
handle.lib = handle.lib.lib
refused(KeyboardInterrupt, "", next, batches)
same("it goes on", (next(batches).step, handle.held), (1, 0))

# Ctrl-C while a sample hangs: at once, again and again; no memory is lost by it, and neither closing nor the end waits.
loader = sampan.Loader(one_hangs, samples=names, batch_size=4, size=16, threads=1)
batches, given = iter(loader), 0
while given < 4:  # the fifth batch is that of the sample
    given += len(next(batches)) == 4
for _ in range(6):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        raise AssertionError(f"a sample that is not there was given: {next(batches).numbers}")
    except KeyboardInterrupt:
        pass
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    loader.set_epoch(3)
    raise AssertionError("an epoch is set although a thread reads for another")
except KeyboardInterrupt:
    pass
other = sampan.Loader(one_hangs, samples=names, batch_size=4, size=16, threads=1)
same("before it", [b.step for _, b in zip(range(4), other)], list(range(4)))
began = time.monotonic()
other.close()
del other
assert time.monotonic() - began < 60, "closing waits for the sample"
os.unlink(os.path.join(one_hangs, "class-001", "000004.jpg"))
with open(os.path.join(one_hangs, "class-001", "000004.jpg"), "w") as sample:
    sample.write("hello")
os.close(os.open(os.path.join(os.path.dirname(one_hangs), "hangs"), os.O_WRONLY))  # whoever waits for it goes on
loader.set_epoch(0)
refused(sampan.LoaderError, "sample 16 (class-001/000004.jpg): neither JPEG nor PNG", lambda: list(batches))
same("pixels", numpy.isfinite(batch.images).all(), True)
PY
"$NUMPY_PYTHON" -B -W error::ResourceWarning "$T/check.py" "$SRC" "$T/one-hangs" "$T/list" || fail "the module"
