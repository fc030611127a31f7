"""Ranks of a training job that are killed, at steps and within checkpoints (torture.py train).

    nth=N     rank 0 of two is killed before its N-th call that changes the folder of checkpoints
    seed=N    of two to four ranks one is killed at a step; the job goes on, is killed again, and so on
    others=N  the same, but with another number of ranks each time, which share the batches of one

The others must end within LIMIT_S and name the rank that died; every checkpoint with a `done` must be whole; the same commands
then go on, and the last checkpoint must be, bit for bit, that of as many ranks that nobody killed. Checkpoints go below saves=FOLDER,
where that is given: a writable mount; store=FOLDER is what it stores to, and there the same must hold. Of other numbers of ranks it is each
step's loss that must be, but for rounding, that of one process.
"""
import filecmp
import json
import os
import random
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

LIMIT_S = 600
CHANGES = "open,write,sync,rename,unlink,make,size"
MODELS = {
    "mlp": "--model mlp --data synthetic:480,4 --image 8 --hidden 16 --ema 0.9 --label_smoothing 0.1 --schedule cosine --warmup_passes 1",
    "lars": "--model mlp --data synthetic:480,4 --image 8 --hidden 16 --optimizer lars --learning_rate 0.5 --schedule step --rate_passes 1",
    "movie": "--model movie --data synthetic:480,4",
}
ALL = "--device cpu --num_passes 2 --keep 2 --saving_period_by_batches 11 --log_period 1 --json --collective_timeout 50s"
BATCH = 12  # of all ranks together, where their number changes
ROUNDING = {"mlp": 2e-5, "lars": 2e-4, "movie": 2e-5}


def tables():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


CRC32C = tables()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def torn(place):
    """What is wrong with a checkpoint that says it is done."""
    try:
        text = (place / "state.json").read_bytes()
        if (place / "done").read_text() != f"sampan-checkpoint 1 {crc32c(text):08x}\n":
            return "state.json"
        for row in json.loads(text)["files"]:
            data = (place / row["name"]).read_bytes()
            if len(data) != row["size"] or crc32c(data) != row["crc32c"]:
                return row["name"]
    except OSError as why:
        return str(why)
    return None


def newest(save):
    return max((p for p in save.glob("pass-*") if (p / "done").exists()), key=lambda p: p.name, default=None)


class Job:
    """All ranks of one life. `meddle`: what rank 0 is run by."""

    def __init__(self, train, folder, save, model, ranks, meddle=(), batch=4):
        self.ranks, self.steps, self.losses, self.stepped = [], 0, {}, threading.Condition()
        self.logs = [folder / f"rank{r}.log" for r in range(ranks)]
        place = Path(tempfile.mktemp(prefix="place-", dir=folder))
        for r, log in enumerate(self.logs):
            command = [*(meddle if r == 0 else ()), train, *ALL.split(), "--batch_size", batch, *MODELS[model].split(), "--save_dir", save, "--trainer_id", r,
                       "--num_gradient_servers", ranks, "--rendezvous", f"file://{place}"]
            with open(log, "wb") as f:
                self.ranks.append(subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stderr=f,
                                                   stdout=subprocess.PIPE if r == 0 else subprocess.DEVNULL))
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.ranks[0].stdout:
            if b'"event":"step"' in line:
                step = json.loads(line)
                with self.stepped:
                    self.losses[step["step"]] = step["loss"]
                    self.steps += 1
                    self.stepped.notify()
        with self.stepped:
            self.steps = 1 << 40  # there are no more
            self.stepped.notify()
        self.ranks[0].stdout.close()

    def kill(self, rank, step):
        with self.stepped:
            self.stepped.wait_for(lambda: self.steps >= step, LIMIT_S)
        self.ranks[rank].kill()

    def end(self):
        """What is wrong with how long it took."""
        wrong = []
        for r, process in enumerate(self.ranks):
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                wrong.append(f"rank {r} of {len(self.ranks)} goes on after {LIMIT_S} s")
                process.kill()
                process.wait()
        self.reader.join()
        return wrong

    def text(self, rank):
        return self.logs[rank].read_text(errors="replace")

    def last_lines(self):
        return "\n".join(f"rank {r}: {line}" for r in range(len(self.ranks)) for line in self.text(r).splitlines()[-3:])

    def judge(self, dead):
        """`dead` was killed: the others named it, unless all were done before."""
        wrong = self.end()
        for r, process in enumerate(self.ranks):
            named = process.returncode == 1 and f"sampan-train: rank {dead} of {len(self.ranks)} has died" in self.text(r)
            done = process.returncode == 0 and "done: step=" in self.text(r)
            if r != dead and not named and not done:
                wrong.append(f"rank {r} ended with {process.returncode} and does not name rank {dead}")
        return wrong


class TrainKills:
    def __init__(self, torture, train, tools):
        self.torture, self.train, self.tools = torture, train, tools
        self.saves = Path(torture.keys.get("saves", torture.world.base))
        self.store = Path(torture.keys["store"]) if "store" in torture.keys else None
        self.undisturbed, self.alone, self.lock = {}, {}, threading.Lock()

    def want(self, model, ranks):
        with self.lock:
            if (model, ranks) not in self.undisturbed:
                folder = Path(tempfile.mkdtemp(prefix=f"want-{model}-{ranks}-", dir=self.torture.world.base))
                job = Job(self.train, folder, folder / "save", model, ranks)
                wrong = job.end()
                assert not wrong and all(p.returncode == 0 for p in job.ranks), job.last_lines()
                self.undisturbed[model, ranks] = newest(folder / "save")
            return self.undisturbed[model, ranks]

    def seen(self, save):
        """The folder as the job sees it, and as the store has it."""
        return [save] + ([self.store / save.relative_to(self.saves)] if self.store else [])

    def whole(self, save):
        return [f"{place}: {torn(place)}" for top in self.seen(save) for place in top.glob("pass-*")
                if (place / "done").exists() and torn(place)]

    @staticmethod
    def same(want, last):
        if last is None or last.name != want.name:
            return [f"it ends at {last}, not at {want.name}"]
        _, other, missing = filecmp.cmpfiles(want, last, os.listdir(want), shallow=False)
        return [f"{last / name} is not that of the job that nobody killed" for name in other + missing]

    def go_on(self, folder, save, model, ranks):
        """To the end, which must be the one of a job that nobody killed."""
        want = self.want(model, ranks)
        job = Job(self.train, folder, save, model, ranks)
        wrong = job.end() + [f"rank {r} ends with {p.returncode}" for r, p in enumerate(job.ranks) if p.returncode] + self.whole(save)
        for top in self.seen(save):
            wrong += self.same(want, newest(top))
        if "Saving parameters" in job.text(0):  # who saves removes what was left of those before
            wrong += [f"left behind: {p.name}" for p in save.iterdir() if not (p / "done").exists()]
        return wrong, job.last_lines()

    def in_folder(self, what, point):
        """A folder of its own for logs and one for checkpoints; wherever they are, they go."""
        with tempfile.TemporaryDirectory(dir=self.torture.world.base) as folder:
            save = Path(tempfile.mkdtemp(prefix="train-", dir=self.saves))
            try:
                self.torture.verdict(what, *point(Path(folder), save))
            finally:
                shutil.rmtree(save, ignore_errors=True)

    def meddle(self, save, *how):
        return [self.tools / "meddle", "--below", save, "--calls", CHANGES, *how, "--timeout", str(LIMIT_S), "--"]

    def count(self):
        with tempfile.TemporaryDirectory(dir=self.torture.world.base) as folder:
            save = Path(folder) / "save"
            save.mkdir()
            job = Job(self.train, Path(folder), save, "mlp", 2, self.meddle(save, "--nth", "0"))
            wrong = job.end()
            (line,) = [line for line in job.text(0).splitlines() if line.startswith("meddle: {")]
            assert not wrong, job.last_lines()
            return json.loads(line[8:])["seen"]

    def cut(self, nth):
        def point(folder, save):
            job = Job(self.train, folder, save, "mlp", 2, self.meddle(save, "--nth", str(nth), "--kill"))
            wrong, told = job.judge(0) + self.whole(save), job.last_lines()
            more, rest = self.go_on(folder, save, "mlp", 2)
            return wrong + more, f"{told}\n{rest}"

        self.in_folder(f"train nth={nth}{self.where()}", point)

    def kill(self, seed):
        chance = random.Random(seed)
        ranks, model = chance.choice([2, 2, 3, 4]), chance.choice(sorted(MODELS))

        def point(folder, save):
            wrong, told = [], ""
            for _ in range(chance.randint(1, 3)):
                job = Job(self.train, folder, save, model, ranks)
                dead = chance.randrange(ranks)
                job.kill(dead, chance.randint(1, 50))
                wrong += job.judge(dead) + self.whole(save)
                told += job.last_lines() + "\n"
            more, rest = self.go_on(folder, save, model, ranks)
            return wrong + more, told + rest

        self.in_folder(f"train seed={seed}{self.where()}", point)

    def losses(self, model):
        """Of each step, of one process."""
        with self.lock:
            if model not in self.alone:
                folder = Path(tempfile.mkdtemp(prefix=f"alone-{model}-", dir=self.torture.world.base))
                job = Job(self.train, folder, folder / "save", model, 1, batch=BATCH)
                wrong = job.end()
                assert not wrong and job.ranks[0].returncode == 0, job.last_lines()
                self.alone[model] = job.losses
            return self.alone[model]

    def other(self, job, model):
        want = self.losses(model)
        return [f"step {step} of {len(job.ranks)} ranks: loss {loss}, of one process {want.get(step)}" for step, loss in job.losses.items()
                if step not in want or not abs(loss - want[step]) <= ROUNDING[model] * max(1, abs(want[step]))][:3]

    def of_any(self, folder, save, model, chance):
        ranks = chance.randint(1, 4)
        return Job(self.train, folder, save, model, ranks, batch=BATCH // ranks)

    def change(self, seed):
        chance = random.Random(seed)
        model = chance.choice(sorted(MODELS))

        def point(folder, save):
            wrong, told = [], ""
            for _ in range(chance.randint(1, 3)):
                job = self.of_any(folder, save, model, chance)
                dead = chance.randrange(len(job.ranks))
                job.kill(dead, chance.randint(1, 40))
                wrong += job.judge(dead) + self.whole(save) + self.other(job, model)
                told += job.last_lines() + "\n"
            job = self.of_any(folder, save, model, chance)
            wrong += job.end() + [f"rank {r} ends with {p.returncode}" for r, p in enumerate(job.ranks) if p.returncode]
            wrong += self.whole(save) + self.other(job, model)
            last = max(self.losses(model))
            if job.losses and max(job.losses) != last:
                wrong.append(f"it ends at step {max(job.losses)}, not at {last}")
            return wrong, told + job.last_lines()

        self.in_folder(f"train others={seed}{self.where()}", point)

    def where(self):
        return "".join(f" {key}={self.torture.keys[key]}" for key in ("saves", "store") if key in self.torture.keys)
