"""Power cuts of a writable mount's stage (torture.py stage): the machine loses power, the store does not.

A life of drive-stage is recorded once for each kind of store and each way to commit. The store is a folder, or an
S3 whose server (s3mem.py) keeps what it holds in one. A cut is the stage's folder as the disk may have
it, and the store as it was at that moment. Then a new mount of another boot opens it and settles, and

  - every object of the store is whole: all of a content that was written under its name at some time;
  - a file whose content was synced (fsync, or close with commit=close) and not touched since has it, in the store
    and to a reader, and so has its name, where that was synced after it was changed (fsync of the folder, or any with
    commit=close); one that was removed is gone; of a rename, or a swap, that nobody synced, each content is under one
    of the names;
  - a reader of the mount sees what the store has, unless the mount says that it is not stored;
  - a log keeps the records that were synced, also where nobody may store it before somebody has looked at it;
  - no upload in parts is left at the store.
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "servers"))
import s3mem

RECORD = 700
MULTIPART = 16 << 20
BLOCK = 1 << 20
LIFE = ("open put:a:1 sync:b:1 safe:c:1 log:l:1 more:l:2 log:l:3 sync:n:1 sync:p:1 sync:q:1 settle put:a:2 sync:b:2 safe:c:2 log:l:4 put:d:1 "
        "move:d:e remove:a sync:f:1 put:n:2 move:n:o log:l:5 put:g:1 safe:c:3 swap:p:q log:l:6 more:l:7 settle safe:c:4 sync:h:1 put:b:3 move:f:g "
        "log:l:8 sync:i:1 remove:h put:h:2 safe:c:5 put:a:4 sync:a:5 move:i:j swap:p:q sync:k:1 remove:b more:l:9 safe:c:6 close").split()
# S3 takes what is large in parts: cut in the middle of an upload, of one that is begun anew, and of a copy.
IN_PARTS = "open put:z:1 log:l:1 sync:a:1 log:l:2 settle sync:z:2 sync:a:2 log:l:3 put:z:3 remove:a safe:c:1 move:z:zz log:l:4 settle close".split()
# What is stored by another mount and changed in part here: the rest comes when it is asked for, or is copied by the store.
PARTLY = ("other:y:1 other:x:1 open patch:y:2 look:y patch:y:3 settle other:y:4 patch:y:5 look:y settle patch:x:2 look:x patch:x:3 settle other:x:4 "
          "patch:x:5 settle patch:y:6 settle other:y:7 patch:y:8 close").split()
LIVES = {f"{store}-{commit}": (store, commit, LIFE) for store in ("file", "s3") for commit in ("background", "close")}
LIVES["s3-parts"] = ("s3", "background", IN_PARTS)
SHARES = 5  # each life is cut so many times less often than asked for
LIVES |= {f"{store}-partly": (store, "background", PARTLY) for store in ("file", "s3")}
# A store that is a folder of the same machine loses its power, too.
HERE = ("open sync:a:1 sync:b:1 sync:c:1 names move:a:d names remove:b names safe:c:2 names sync:e:1 move:d:a names swap:a:c names settle "
        "remove:e move:a:f names settle close").split()
LIVES |= {f"here-{commit}": ("here", commit, HERE) for commit in ("background", "close")}


def seed_of(name, k):
    total = k * 17
    for byte in name.encode():
        total = (total * 31 + byte) & 0xFFFFFFFF
    return total % 1000003


def pattern(seed, size):
    """Byte i is seed * 31 + i * 7 + (i >> 8) * 13 + (i >> 16) * 101."""
    blocks = [bytes((first + i * 7) & 255 for i in range(256)) for first in range(256)]
    firsts = ((seed * 31 + b * (256 * 7 + 13) + (b >> 8) * 101) & 255 for b in range(size // 256 + 1))
    return b"".join(blocks[first] for first in firsts)[:size]


KNOWN = {}


def content(name, k):
    """As drive-stage makes it."""
    if (name, k) not in KNOWN:
        seed = seed_of(name, 1 if name[0] in "xy" else k)
        whole = pattern(seed, {"x": MULTIPART, "y": 3 * BLOCK, "z": MULTIPART}.get(name[0], 300) + seed * 131 % 60000)
        KNOWN[name, k] = whole if name[0] not in "xy" else pattern(seed_of(name, k), BLOCK) + whole[BLOCK:]
    return KNOWN[name, k]


def records(name, ks):
    return b"".join(pattern(seed_of(name, k), RECORD) for k in ks)


class File:
    """What a name may hold. `now`: its content, None: no file. `hard`: that is synced; `named`: so is that it is here."""

    def __init__(self):
        self.now, self.hard, self.named, self.ever = None, True, True, set()
        self.log, self.log_hard = [], 0

    def set(self, data, hard):
        self.now, self.hard = data, hard
        if data is not None:
            self.ever.add(data)


class Model:
    def __init__(self, marks):
        self.files, self.moves, self.swaps, self.elsewhere = {}, [], [], set()
        for mark in marks:
            what, name, value = mark.split(":", 2)
            getattr(self, what)(name, value)

    def of(self, name):
        return self.files.setdefault(name, File())

    def touched(self, *names):
        """What is known of moves that nobody synced holds no more where somebody changed one of their names."""
        self.moves = [m for m in self.moves if not set(names) & set(m[:2])]
        self.swaps = [s for s in self.swaps if not set(names) & set(s[0])]

    def begun(self, name, value):
        f = self.of(name)
        self.touched(name)
        if name == "l":
            f.log.append(int(value))
            f.set(records(name, f.log), False)
        else:
            f.set(content(name, int(value)), False)

    def other(self, name, value):
        self.elsewhere.add(name)

    def put(self, name, value):
        pass

    def synced(self, name, value):
        f = self.of(name)
        f.hard = True
        f.log_hard = len(f.log)
        self.elsewhere.discard(name)
        self.all_named()

    def named(self, name, value):
        self.all_named()

    def all_named(self):
        self.moves, self.swaps = [], []
        for f in self.files.values():
            f.named = True

    def moving(self, name, to):
        a, b = self.of(name), self.of(to)
        self.touched(name, to)
        if a.hard and a.named:
            self.moves.append((name, to, a.now))
        b.ever |= a.ever
        b.set(a.now, a.hard)
        a.set(None, True)
        a.named = b.named = False

    def moved(self, name, to):
        pass

    def swapping(self, name, to):
        a, b, temp = self.of(name), self.of(to), self.of(f"{name}.swap")
        self.touched(name, to)
        kept = [f.now for f in (a, b) if f.hard and f.named]
        self.swaps.append(((name, to, f"{name}.swap"), kept))
        a.ever |= b.ever
        b.ever |= a.ever
        temp.ever |= a.ever
        a.now, a.hard, b.now, b.hard = b.now, b.hard, a.now, a.hard
        a.named = b.named = temp.named = False

    def removing(self, name, value):
        self.touched(name)
        self.of(name).set(None, True)
        self.of(name).named = False

    def removed(self, name, value):
        pass

    def stored(self, name, value):
        for f in self.files.values():
            f.hard, f.log_hard = True, len(f.log)
        self.all_named()

    # --- judging

    def whole(self, name, data):
        if name == "l":
            return len(data) % RECORD == 0 and records(name, self.of(name).log).startswith(data)
        return data in self.of(name).ever

    def judge(self, store, view, pending=None):
        wrong = []
        for name in sorted(set(store) | set(view)) if pending is not None else []:
            if name not in pending and store.get(name) != view.get(name):
                wrong.append(f"{name} is {size(store.get(name))} in the store and other {size(view.get(name))} in the mount, and nothing is owed")
        for name, data in store.items():
            if not self.whole(name, data):
                wrong.append(f"the store has something else under {name}: {len(data)} bytes")
        for name, f in self.files.items():
            if f.hard and f.named:
                for where, there in (("store", store), ("mount", view)):
                    if there.get(name) != f.now:
                        wrong.append(f"{name} in the {where} is not what was synced: {size(there.get(name))} instead of {size(f.now)}")
            elif f.log_hard and not view.get(name, b"").startswith(records(name, f.log[:f.log_hard])):
                wrong.append(f"{name} lost synced records: {size(view.get(name))}")
        for name, to, data in self.moves:
            if data not in (store.get(name), store.get(to)):
                wrong.append(f"{name} was synced and then renamed to {to}: it is under neither name")
        for names, contents in self.swaps:
            for data in contents:
                if data not in [store.get(name) for name in names]:
                    wrong.append(f"{names[0]} and {names[1]} were synced and then swapped: {size(data)} are under none of {names}")
        return wrong


def size(data):
    return "none" if data is None else f"{len(data)} bytes"


def files_in(folder):
    """What a client of the store sees: its half-made files have names of their own."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and not p.name.startswith(".sampan-")}


class FileStore:
    """A folder. A stage knows its store by its address: each cut has it where it was recorded."""

    apart = True

    def __init__(self, life):
        self.life = life

    def drive(self, tool, bucket, *args):
        seen = self.life / "bucket"
        return [tool, bucket if bucket == seen else f"{bucket}={seen}", *args]

    objects = staticmethod(files_in)

    @staticmethod
    def left(_bucket):
        return []


class FolderHere(FileStore):
    """It is cut, too."""

    apart = False


class S3Store:
    apart = True

    def __init__(self, life):
        self.life = life

    @staticmethod
    def drive(tool, bucket, *args):
        return [sys.executable, s3mem.__file__, "--keep", bucket, "--run", tool, "s3://torture", *args]

    @staticmethod
    def objects(bucket):
        return {h["name"][1]: body for _, h, body in s3mem.Keep.read(bucket) if h["name"][0] == "object"}

    @staticmethod
    def left(bucket):
        return [h["key"] for _, h, _ in s3mem.Keep.read(bucket) if "key" in h]


STORES = {"file": FileStore, "here": FolderHere, "s3": S3Store}


class StageCuts:
    def __init__(self, torture, tools, run, other_boot):
        self.torture, self.tools, self.run, self.other_boot = torture, tools, run, other_boot

    def record(self, where, store, commit, steps):
        bucket, stage = where / "bucket", where / "stage"
        bucket.mkdir(parents=True)
        stage.mkdir()
        done = self.run([self.tools / "meddle", "--below", stage, "--below", bucket, "--record", where / "log", "--timeout", "600", "--",
                         *store.drive(self.tools / "drive-stage", bucket, stage, commit, *steps)])
        assert done.end == "exit 0", done.text
        return where / "log"

    def cut(self, log, name, seed):
        kind, commit, _ = LIVES[name]
        store = STORES[kind](log.parent)
        with tempfile.TemporaryDirectory(dir=self.torture.world.base) as folder:
            top = Path(folder)
            told = json.loads(subprocess.run([self.tools / "replay", *(["--apart", "1"] if store.apart else []), log, str(seed), top / "cut"], check=True,
                                             stdout=subprocess.PIPE).stdout)
            stage, bucket, view = top / "cut/0", top / "cut/1", top / "view"
            view.mkdir()
            model = Model(told["marks"])
            wrong = [f"before: {w}" for w in model.judge(store.objects(bucket), {}) if "something else" in w]
            drive = store.drive(self.tools / "drive-stage", bucket, stage, commit, "open", "settle:try", f"export:{view}", "pending", "close")
            done = self.run(drive, self.other_boot())
            if done.code == 77:
                return
            if done.code:
                wrong.append(f"{done.end}: {' / '.join(done.lines[-2:])}")
            else:
                pending = [item["path"] for line in done.lines if line.startswith('{"pending"') for item in json.loads(line)["pending"]["items"]]
                wrong += model.judge(store.objects(bucket), files_in(view), pending)
                wrong += [f"an upload of {name} was left" for name in store.left(bucket) if name not in model.elsewhere]
                wrong += [line for line in done.lines if line.startswith("unreadable ")]
            self.torture.verdict(f"stage of={name} life={log.parent} seed={seed}", wrong,
                                 f"cut at {told['cut']} of {told['ops']}, names {told['names']}, last: {told['marks'][-3:]}\n{done.text}")

    def play(self, seeds_of, keys):
        lives = Path(tempfile.mkdtemp(prefix="stage-life-", dir=self.tools)) if "life" not in keys else Path(keys["life"]).parent
        failed = self.torture.failed
        for name, (kind, commit, steps) in LIVES.items():
            if keys.get("of", name) != name:
                continue
            life = lives / name
            log = life / "log"
            if "life" not in keys:
                log = self.record(life, STORES[kind](life), commit, steps)
            self.torture.pool([(self.cut, log, name, seed) for seed in seeds_of(SHARES)])
        if self.torture.failed == failed and "life" not in keys:
            shutil.rmtree(lives)
