#!/usr/bin/env bash
# The Python module installs from the tree without a network and a package, gives the frameworks' orders
# as a sampler and as batches, goes on from a state, and tells a mount its sampler and epoch.
. "$SAMPAN_TESTS/lib/common.sh"
[ -x "${VENV:-}/bin/pip" ] || skip "no venv here (make venv)"
need_mount
TMPDIR=$T "$VENV/bin/pip" install -q --no-index --no-deps --disable-pip-version-check --no-cache-dir --target "$T/site" \
    "$SAMPAN_TESTS/../python" >"$T/log/pip" 2>&1 || fail "pip install: $(tail -3 "$T/log/pip")"
# What `make` has built of the loader is in the package.
if [ -e "$SAMPAN_TESTS/../build/lib/libsampan-loader.so.0" ]; then
    env -u SAMPAN_LOADER_LIBRARY PYTHONPATH="$T/site" "$PYTHON" -c '
import os, sampan._loader as module
assert os.path.dirname(module._load()._name) == os.path.dirname(module.__file__), module._load()' || fail "the package has no loader"
fi
make_set --classes 3 --files 8
mount_set "file://$SRC"
cat >"$T/check.py" <<'PY'
import copy
import inspect
import os
import pickle
import sys
import sampan

mount, n = sys.argv[1], int(sys.argv[2])

# Editors and checkers of types are told what there is (PEP 561).
assert os.path.exists(os.path.join(os.path.dirname(sampan.__file__), "py.typed")), "no py.typed"
for name in sampan.__all__:
    thing = getattr(sampan, name)
    members = {k: v for k, v in vars(thing).items() if not k.startswith("_") or k in ("__init__", "__iter__", "__len__")}
    for function in [thing] if inspect.isfunction(thing) else filter(inspect.isfunction, members.values()):
        signature = inspect.signature(function)
        types = [p.annotation for p in signature.parameters.values() if p.name != "self"]
        assert inspect.Signature.empty not in [signature.return_annotation, *types], f"{function.__qualname__}: a type is missing"


def same(what, got, want):
    assert got == want, f"{what}: got {got}, want {want}"


s = sampan.sampler("random", 11, ranks=3, rank=1, batch_size=2, shuffle=True)
same("batches of Paddle's epoch 0", list(s), [[4, 10], [9, 3]])
same("epoch 1 follows by itself", list(s), [[4, 10], [0, 9]])
same("as many as it says", len(s), 2)
s.set_epoch(0)
same("an epoch set", list(s), [[4, 10], [9, 3]])
same("indices", list(sampan.sampler("torch-loader", range(10))), [6, 7, 1, 4, 2, 0, 9, 8, 3, 5])
same("a large one", sum(sampan.sampler("random", 200000, shuffle=True)), 200000 * 199999 // 2)
same("of no sample", list(sampan.sampler("random", 0)), [])
# A checkpoint in the middle, taken up by one rank instead of three.
s.set_epoch(0)
it = iter(s)
next(it)
state = s.state_dict()
one = sampan.sampler("random", 11, ranks=1, batch_size=2, shuffle=True)
one.load_state_dict(state)
same("the rest, once", list(one), [[1, 7], [9, 3], [5]])
same("then the next epoch", one.epoch, 1)
# Loops that say which epoch it is, also the one that a state was loaded of.
one.load_state_dict(state)
one.set_epoch(0)
same("its epoch set: the rest", list(one), [[1, 7], [9, 3], [5]])
one.load_state_dict(state)
one.set_epoch(1)
one.set_epoch(0)
same("another in between: all of it", len(list(one)), 6)
# A state between set_epoch and the first batch is that of the epoch that was set.
unfinished = iter(one)
next(unfinished)
one.set_epoch(3)
again = sampan.sampler("random", 11, ranks=1, batch_size=2, shuffle=True)
again.load_state_dict(one.state_dict())
same("an epoch that was set and not begun", (again.epoch, list(again)), (3, list(one)))
one.set_epoch(0)
list(one)
# A state of an epoch's end: nothing is left of it, once.
one.load_state_dict(one.state_dict())
same("nothing of the epoch that was read", (list(one), one.epoch), ([], 1))
same("then the next one, whole", len(list(one)), 6)
again = sampan.sampler("random", 11, ranks=3, rank=1, batch_size=2, shuffle=True)
again.load_state_dict(state)
same("the same ranks go on", list(again), [[9, 3]])
for name, keys, part in (("randm", {}, "unknown name"), ("random", {"ranks": 0}, "ranks=0"),
                         ("random", {"seed": 1}, 'unknown key "seed"')):
    try:
        sampan.sampler(name, 5, **keys)
        raise AssertionError(f"{name} {keys} was taken")
    except ValueError as refused:
        assert part in str(refused), refused
for samples in -1, 2 ** 64, 2 ** 33:
    try:
        sampan.sampler("sequence", samples)
        raise AssertionError(f"{samples} samples were taken")
    except ValueError as refused:
        assert str(samples) in str(refused), refused
# Numbers as programs have them: of numpy too, and no text, whose batches would never be full.
class Number:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n


same("numbers of another kind", list(sampan.sampler("sequence", Number(5), batch_size=Number(2))), [[0, 1], [2, 3], [4]])
for keys in {"batch_size": "2"}, {"batch_size": 2.0}, {"epoch": "1"}:
    try:
        sampan.sampler("sequence", 5, **keys)
        raise AssertionError(f"{keys} was taken")
    except TypeError as refused:
        assert "want a whole number" in str(refused), refused
for call in lambda: sampan.sampler("sequence\0", 5), lambda: sampan.set_sampler(mount, "sequence\0"):
    try:
        call()
        raise AssertionError("what is behind a NUL byte was left out")
    except ValueError as refused:
        assert "a NUL byte" in str(refused), refused
s.set_epoch(0)
for bad, keys in (({}, {}), (None, {}), ({"token": b"x", "epoch": 0}, {}), (state, {"ranks": 2 ** 32 + 3}), (state, {"rank": -1})):
    try:
        s.load_state_dict(bad, **keys)
        raise AssertionError(f"{bad} {keys} was taken")
    except ValueError as refused:
        assert "state_dict()" in str(refused) or "ranks are counted from 0" in str(refused), refused
for use in lambda: s.state_dict(taken=2.0), lambda: s.load_state_dict(state, ranks=3.0), lambda: s.load_state_dict(state, rank="1"):
    try:
        raise AssertionError(f"what is no whole number was taken: {use()}")
    except TypeError as refused:
        assert "want a whole number" in str(refused), refused
s.load_state_dict(state, ranks=Number(3), rank=Number(1))
same("ranks of another kind", list(s), [[9, 3]])
same("what was taken, of another kind", s.state_dict(taken=Number(2)), s.state_dict(taken=2))
for taken in -1, 2 ** 64 + 2:  # the latter is 2, cut off
    try:
        raise AssertionError(f"{taken} samples were taken: {s.state_dict(taken=taken)}")
    except ValueError as refused:
        assert f"{taken} samples taken" in str(refused), refused
s.set_epoch(0)
for other, part in ((sampan.sampler("random", 10), "of paddle-distributed, 11 samples; here: paddle-distributed, 10"),
                    (sampan.sampler("torch-distributed", 11), "of paddle-distributed, 11 samples; here: torch-distributed, 11")):
    numbers = list(other)
    try:
        other.load_state_dict(state)
        raise AssertionError("numbers of another set, or in another order, are gone on with")
    except ValueError as refused:
        assert part in str(refused), refused
    other.set_epoch(0)
    same("it goes on with its own", list(other), numbers)
same("it is what it was", list(s), [[4, 10], [9, 3]])
# Copies, and what another process gets, are samplers of their own.
again.load_state_dict(state)
copies = [copy.deepcopy(again), pickle.loads(pickle.dumps(again)), copy.copy(again)]
same("copies in the middle of an epoch", [list(c) for c in copies], 3 * [[[9, 3]]])
del copies
same("and the one they are copies of", list(again), [[9, 3]])
# The mount hears of it.
s = sampan.sampler("torch-distributed", n, ranks=2, rank=1, ranks_per_node=2, batch_size=4, mount=mount)
status = sampan.status(mount)
assert status["order"]["sampler"].startswith("torch-distributed,ranks=2,rank=0,ranks-per-node=2"), status["order"]
same("the node's order is that of both ranks", status["order"]["length"], n + n % 2)
generation = status["order"]["generation"]
for epoch in range(2):
    list(s)
    same("the epoch that the mount reads ahead by", sampan.status(mount)["order"]["epoch"], epoch)
other = sampan.sampler("torch-distributed", n, ranks=2, rank=0, ranks_per_node=2, batch_size=4, epoch=1, mount=mount)
iter(other)
same("the second rank builds nothing again", sampan.status(mount)["order"]["generation"], generation + 1)
sampan.set_epoch(mount, 7)
same("by hand", sampan.status(mount)["order"]["epoch"], 7)
for ask in lambda folder: sampan.set_epoch(folder, 1), sampan.status:
    try:
        raise AssertionError(f"a folder that is no mount has an answer: {ask(mount + '/..')}")
    except OSError as refused:
        assert "mounted set" in str(refused) and mount in str(refused), refused
sampan.set_sampler(mount, "")
same("off", sampan.status(mount)["order"]["sampler"], "")
PY
PYTHONPATH=$T/site "$PYTHON" "$T/check.py" "$MNT" "$(status set.numbered)" || fail "the module"
unmount
