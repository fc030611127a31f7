#!/usr/bin/env python3
"""sampan.sampler beside the frameworks' own samplers, over random cases, and as what their loaders read a mount by.

    samplers.py PyTorch|Paddle MOUNT SOURCE [CASES [SEED]]
"""
import os
import random
import sys
import zlib

import numpy
import sampan

WORKERS = 4


class Numbers:
    """As a data set: its length, and numbers for samples."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i


class Files(Numbers):
    """Samples below a folder by number: (number, sum of the bytes)."""

    def __init__(self, top):
        found = (os.path.relpath(os.path.join(at, name), top) for at, _, names in os.walk(top) for name in names)
        self.top, self.paths = top, sorted(found, key=os.fsencode)
        super().__init__(len(self.paths))

    def __getitem__(self, i):
        with open(os.path.join(self.top, self.paths[i]), "rb") as f:
            return numpy.array([i, zlib.crc32(f.read())], dtype="int64")


def same(what, got, want):
    assert got == want, f"{what}: got {str(got)[:300]}, want {str(want)[:300]}"


def dealt(rng):
    ranks = rng.randint(1, 9)
    return {"ranks": ranks, "rank": rng.randrange(ranks), "batch_size": rng.choice((1, 2, 3, 8, 32, 256)), "shuffle": rng.random() < 0.8,
            "drop_last": rng.random() < 0.5}


# --- PyTorch ------------------------------------------------------------------------------------------


def torch_case(rng, n):
    import torch
    from torch.utils import data
    kind, epoch, seed = rng.choice(("distributed", "random", "loader")), rng.randrange(6), rng.randrange(1 << 31)
    if kind == "distributed":
        keys = dealt(rng)
        theirs = data.DistributedSampler(Numbers(n), keys["ranks"], keys["rank"], keys["shuffle"], seed, keys["drop_last"])
        theirs.set_epoch(epoch)
        ours = sampan.sampler("torch-distributed", n, seed=seed, epoch=epoch, **keys)
        batches = [b for b in data.BatchSampler(theirs, keys["batch_size"], False)]
        return keys, list(ours), batches
    generator = torch.Generator().manual_seed(seed)
    if kind == "random":
        theirs = data.RandomSampler(Numbers(n), generator=generator)
        return "random", list(sampan.sampler("torch-random", n, seed=seed, epoch=epoch, generator=True)), [list(theirs) for _ in range(epoch + 1)][-1]
    given = rng.random() < 0.5
    torch.manual_seed(seed)
    theirs = data.DataLoader(Numbers(n), batch_size=7, shuffle=True, generator=generator if given else None)
    want = [[int(i) for batch in theirs for i in batch] for _ in range(epoch + 1)][-1]
    return f"loader {given}", list(sampan.sampler("torch-loader", n, seed=seed, epoch=epoch, generator=given)), want


def torch_reads(mount, keys, epochs):
    from torch.utils import data
    files = Files(mount)
    batches = sampan.sampler("torch-distributed", files, mount=mount, **keys)
    loader = data.DataLoader(files, batch_sampler=batches, num_workers=WORKERS)
    theirs = data.DistributedSampler(files, keys["ranks"], keys["rank"])
    got, want = [], []
    for epoch in range(epochs):
        got.append([row for batch in loader for row in batch.tolist()])
        same("the mount's epoch", sampan.status(mount)["order"]["epoch"], epoch)
        theirs.set_epoch(epoch)
        want.append(list(theirs))
    return got, want


# --- Paddle -------------------------------------------------------------------------------------------


def paddle_case(rng, n):
    from paddle import io
    kind, epoch, seed = rng.choice(("distributed", "random", "loader")), rng.randrange(6), rng.randrange(1 << 31)
    if kind == "distributed":
        keys = dealt(rng)
        theirs = io.DistributedBatchSampler(Numbers(n), keys["batch_size"], keys["ranks"], keys["rank"], keys["shuffle"], keys["drop_last"])
        theirs.set_epoch(epoch)
        ours = sampan.sampler("paddle-distributed", n, epoch=epoch, **keys)
        return keys, list(ours), [[int(i) for i in batch] for batch in theirs]
    numpy.random.seed(seed)
    if kind == "random":
        theirs = io.RandomSampler(Numbers(n))
    else:
        theirs = io.BatchSampler(Numbers(n), shuffle=True, batch_size=5)
    want = [[int(i) for part in theirs for i in (part if kind == "loader" else [part])] for _ in range(epoch + 1)][-1]
    name = "paddle-random" if kind == "random" else "paddle-loader"
    return kind, list(sampan.sampler(name, n, seed=seed, epoch=epoch)), want


def paddle_reads(mount, keys, epochs):
    from paddle import io

    class Data(Files, io.Dataset):
        pass

    files = Data(mount)
    batches = sampan.sampler("paddle-distributed", files, mount=mount, shuffle=True, **keys)
    loader = io.DataLoader(files, batch_sampler=batches, num_workers=WORKERS, use_shared_memory=False)
    theirs = io.DistributedBatchSampler(files, keys["batch_size"], keys["ranks"], keys["rank"], shuffle=True)
    got, want = [], []
    for epoch in range(epochs):
        got.append([row for batch in loader for row in numpy.asarray(batch[0] if isinstance(batch, (list, tuple)) else batch).tolist()])
        same("the mount's epoch", sampan.status(mount)["order"]["epoch"], epoch)
        theirs.set_epoch(epoch)
        want.append([int(i) for batch in theirs for i in batch])
    return got, want


# --- both ---------------------------------------------------------------------------------------------


def redealt(rng, name):
    """An epoch broken off and gone on with by other ranks: all of it is read, what was read is not read again."""
    n, before, after, size = rng.randint(1, 300), rng.randint(1, 6), rng.randint(1, 6), rng.choice((1, 2, 5, 16))
    keys = {"batch_size": size, "epoch": rng.randrange(4), "shuffle": True}
    samplers = [sampan.sampler(name, n, ranks=before, rank=r, **keys) for r in range(before)]
    lists = [[i for batch in s for i in batch] for s in samplers]
    taken = rng.randrange(len(lists[0]) + 1)
    read = {i for numbers in lists for i in numbers[:taken]}
    state = samplers[rng.randrange(before)].state_dict(taken=taken)
    rest = []
    for rank in range(after):
        one = sampan.sampler(name, n, ranks=after, rank=rank, **keys)
        one.load_state_dict(state, ranks=after, rank=rank)
        rest.append([i for batch in one for i in batch])
    where = f"{name} of {n}, {before} ranks, {taken} taken, then {after}"
    same(f"{where}: length of the ranks' rests", len({len(r) for r in rest}), 1)
    if before == after:
        return same(where, rest, [numbers[taken:] for numbers in lists])
    same(f"{where}: the rest", {i for numbers in rest for i in numbers}, set(range(n)) - read)
    short = sum(map(len, rest)) - (n - len(read))
    assert 0 <= short < after, f"{where}: {short} repeats"
    return None


def main():
    what, mount, source = sys.argv[1:4]
    cases, seed = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((4, 400), (5, 1)))
    case, reads, name = {"PyTorch": (torch_case, torch_reads, "torch-distributed"), "Paddle": (paddle_case, paddle_reads, "paddle-distributed")}[what]
    rng = random.Random(seed)
    for i in range(cases):
        n = rng.choice((1, 2, 3, 7, 64, 65, 1000, rng.randint(1, 5000)))
        keys, got, want = case(rng, n)
        same(f"case {i}, {n} samples, {keys}", got, want)
    for _ in range(cases):
        redealt(rng, name)
    files, read = Files(source), 0
    for rank in (0, 2):
        got, want = reads(mount, {"ranks": 3, "rank": rank, "batch_size": 16}, epochs=2)
        same(f"{what} by {WORKERS} workers, rank {rank}", got, [[files[i].tolist() for i in numbers] for numbers in want])
        read += sum(map(len, got))
    print(f"{cases} cases, {cases} redealt, {read} samples by workers: equal")


main()
