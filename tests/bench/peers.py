#!/usr/bin/env python3
"""Sampan beside other programs that show a bucket as a folder: one server, the same samples, one run.

    peers.py [--dir DIR] [--minutes M] [--repeats N] [--scale F] [PROGRAM...]      (BENCH_QUICK=1: a smaller one)

In each repeat all programs take their turn, in another order; figures are medians. What is killed, written and changed
at the source is tried once. A program that fails a row has the reason in its place. No repeat is begun that would end
after M minutes (15), and then no step. peer_programs.py says how each is set up; those that are missing are named. Writes peers.md and
peers-raw.jsonl into DIR, and a full run the table of docs/benchmarks/peers.md.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import peer_report
from peer_programs import BUCKET, LONGEST, PROGRAMS, SET, Store, run
from world import SAMPAN, TOOLS, World, epoch, forget_pages

IO = Path(__file__).parent / "peer_io.py"
DISK = "plain ext4"
READERS = 8
KILLED_AFTER, READ_FOR = 3, 10  # seconds
FAILS = (RuntimeError, OSError, ValueError, KeyError, subprocess.SubprocessError)
SIZES = {  # of each set: quick or not: name: (samples, bytes each)
    False: {"samples": (4000, 115000), "small": (10000, 4096), "large": (8, 146600628)},
    True: {"samples": (1000, 115000), "small": (2000, 4096), "large": (2, 146600628)}}
WRITTEN = {False: (1024, 2000), True: (128, 300)}  # MiB, files


def scaled(sizes, factor):
    """So many fewer samples; where that would be none of the large, smaller ones."""
    files, size = sizes["large"]
    large = (max(1, round(files * factor)), size if files * factor >= 1 else int(size * factor))
    return {**{name: (max(10, round(files * factor)), size) for name, (files, size) in sizes.items()}, "large": large}


def mib(n):
    return os.urandom(1 << 20) * n


class Trial:
    """All that is measured. results[program][row] is a list of figures, or of words."""

    def __init__(self, world, options, ends):
        self.world, self.options, self.ends = world, options, ends
        self.sizes = scaled(SIZES[world.quick], options.scale)
        self.written_sizes = tuple(max(1, round(n * options.scale)) for n in WRITTEN[world.quick])
        self.sets = {name: world.make_set(*size) for name, size in self.sizes.items()}
        self.results, self.raw = {DISK: {}}, (world.base / "peers-raw.jsonl").open("a")
        self.store = Store(world)
        self.store.s3("make", BUCKET)
        self.store.mark(SET)
        for name, folder in self.sets.items():
            self.store.put(folder, f"{SET}{name}/")
        self.programs, self.left_out, self.versions = {}, {}, {DISK: "", "MinIO": self.store.version()}

    def note(self, program, row, value):
        self.results[program].setdefault(row, []).append(value)
        self.raw.write(json.dumps({"program": program, "row": row, "value": value, "load": os.getloadavg()[0], "at": time.time()}) + "\n")
        self.raw.flush()

    def attempt(self, program, row, step):
        """A row, or why there is none."""
        if time.monotonic() > self.ends:
            return self.note(program, row, "no time")
        try:
            return step()
        except subprocess.TimeoutExpired:
            self.note(program, row, f"not done after {LONGEST} s")
        except FAILS as e:
            said = str(e)
            print(f"  {program}: {row}: {said}", file=sys.stderr)
            self.note(program, row, f"failed: {said[-120:]}")
        return None

    def pass_over(self, program, row, where, of, threads, seed, epochs=1):
        """Notes samples a second, bytes a second of large ones."""
        def step():
            got = epoch(where, threads, seed, epochs=epochs, timeout=LONGEST)
            if got["errors"]:
                raise RuntimeError(f"{got['errors']} of {got['samples']} reads failed")
            self.note(program, row, got["bytes" if of == "large" else "samples"] / got["seconds"])
        self.attempt(program, row, step)

    def hot(self, name, where, seed):
        for of in ("samples", "small"):
            self.attempt(name, f"{of} hot 8", lambda of=of: epoch(where / of, READERS, seed, timeout=LONGEST))
            self.pass_over(name, f"{of} hot 8", where / of, of, READERS, seed + 1, epochs=3)

    # --- one turn of a program ------------------------------------------------------------------------

    def walk(self, name, where):
        out = run(SAMPAN, "bench", "meta", where, "--passes", 2, "--json", "--quiet")
        first, second = (json.loads(line) for line in out.splitlines())
        owed = sum(files for files, _ in self.sizes.values())
        if second["files"] != owed:
            raise RuntimeError(f"lists {second['files']} of {owed} files")
        self.note(name, "walk first", first["entries_per_s"])
        self.note(name, "walk second", second["entries_per_s"])

    def cold(self, program, mount, seed):
        name = program.name
        before, _ = mount.used()
        self.pass_over(name, "samples cold 8", mount.where / "samples", "samples", READERS, seed)
        after, resident = mount.used()
        self.note(name, "cpu cold", (after - before) * 10000 / self.sizes["samples"][0])
        self.pass_over(name, "small cold 8", mount.where / "small", "small", READERS, seed)
        self.pass_over(name, "large cold 8", mount.where / "large", "large", READERS, seed)
        self.note(name, "resident", max(resident, mount.used()[1]))

    def warmed(self, program, seed):
        """A folder that the program's own verb has filled; its seconds are noted."""
        cache = self.world.folder("cache")
        with closing(program.mount(cache)) as mount:
            began = time.monotonic()
            program.warmup(mount)
            self.note(program.name, "warmup", time.monotonic() - began)
        return cache

    def first_epochs(self, program, cache, mount, seed):
        """With the cache full and the kernel's pages gone. Where the cache outlives the mount, each pass has a mount of its own."""
        name = program.name
        for of, threads in (("samples", 1), ("samples", READERS), ("small", READERS), ("large", 1), ("large", READERS)):
            if program.keeps:
                mount.close()
                mount = program.mount(cache)
            forget_pages()
            before, _ = mount.used()
            self.pass_over(name, f"{of} first {threads}", mount.where / of, of, threads, seed)
            if (of, threads) == ("samples", READERS):
                self.note(name, "cpu first", (mount.used()[0] - before) * 10000 / self.sizes["samples"][0])
        return mount

    def told(self, program, seed):
        """Only for one that can be told the order: a first epoch in it, of a mount that has nothing but the samples."""
        spec = f"paddle-distributed,ranks=1,batch-size=32,shuffle=true,epoch={seed}"
        cache = self.world.folder("cache")
        with closing(program.mount(cache, f"{SET}samples/")) as mount:
            program.warmup(mount)
        for threads in (1, READERS):
            with closing(program.mount(cache, f"{SET}samples/", False, "--sampler", spec)) as mount:
                forget_pages()
                got = epoch(mount.where, threads, None, "--sampler", spec, timeout=LONGEST)
                self.note(program.name, f"samples told {threads}", got["samples"] / got["seconds"])
        self.world.forget(cache)

    def compare(self, program, where):
        """Every byte of all sets: how many samples are wrong."""
        wrong = 0
        for of, folder in self.sets.items():
            done = subprocess.run([SAMPAN, "bench", "epoch", where / of, "--threads", str(READERS), "--verify", "--compare", folder, "--json", "--quiet"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LONGEST, check=False)
            wrong += json.loads(done.stdout)["errors"]
        self.note(program.name, "wrong", wrong)

    def turn(self, program, repeat):
        seed = 10 * repeat + 1
        cache = self.world.folder("cache")
        mount = program.mount(cache)
        try:
            self.note(program.name, "ready", mount.seconds)
            self.attempt(program.name, "walk first", lambda: self.walk(program.name, mount.where))
            self.cold(program, mount, seed)
            self.hot(program.name, mount.where, seed + 1)
            if program.warms:
                mount.close()
                cache = self.attempt(program.name, "warmup", lambda: self.warmed(program, seed)) or cache
                mount = program.mount(cache)
            mount = self.first_epochs(program, cache, mount, seed + 3)
            if repeat == 0:
                self.attempt(program.name, "wrong", lambda: self.compare(program, mount.where))
        finally:
            self.unmount_all()
        if program.ordered:
            self.attempt(program.name, "samples told 1", lambda: self.told(program, seed + 4))
        self.world.forget(cache)

    def disk_turn(self, repeat):
        seed, folders = 10 * repeat + 1, self.sets
        for of, threads in (("samples", 1), ("samples", READERS), ("small", READERS), ("large", 1), ("large", READERS)):
            forget_pages()
            self.pass_over(DISK, f"{of} first {threads}", folders[of], of, threads, seed)
        for of in ("samples", "small"):
            epoch(folders[of], READERS, seed)
            self.pass_over(DISK, f"{of} hot 8", folders[of], of, READERS, seed, epochs=3)
        forget_pages()
        walked = [[json.loads(line) for line in run(SAMPAN, "bench", "meta", folders[of], "--passes", 2, "--json", "--quiet").splitlines()] for of in folders]
        for at, row in enumerate(("walk first", "walk second")):
            self.note(DISK, row, sum(w[at]["entries"] for w in walked) / sum(w[at]["seconds"] for w in walked))

    # --- tried once -----------------------------------------------------------------------------------

    def killed(self, program):
        """Its process is killed under readers that compare every byte, and put nothing into the page cache."""
        cache = self.world.folder("cache")
        with closing(program.mount(cache)) as mount:
            words = [TOOLS / "verify-reader", "--threads", READERS, "--seconds", READ_FOR, "--how", "read", "--drop", "--hash", "--hung-s", "60",
                     self.sets["samples"], mount.where / "samples"]
            with subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as readers:
                try:
                    time.sleep(KILLED_AFTER)
                    os.kill(mount.victim(), signal.SIGKILL)
                    got = json.loads(readers.communicate(timeout=LONGEST)[0])
                finally:
                    readers.kill()
            back = subprocess.run(["ls", str(mount.where)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == 0
            self.note(program.name, "killed: errors", got["errors_total"])
            self.note(program.name, "killed: wrong", got["mismatches"])
            self.note(program.name, "killed: pause", got["call_ms"]["longest"] if back else "for good")
        self.world.forget(cache)

    def io(self, *words):
        return json.loads(run(sys.executable, IO, *words))

    def written(self, program):
        """Into a folder of its own; then, with nothing cached, read back by a mount of its own."""
        many, prefix = self.written_sizes, f"written-{program.name}/"
        if program.in_place:
            self.store.mark(prefix)
        with closing(program.mount(self.world.folder("cache"), prefix, True)) as mount:
            before, began = self.store.objects(prefix), time.monotonic()
            took = self.io("write", mount.where, *many)
            closed = time.monotonic() - began
            while program.in_place and self.store.objects(prefix) < before + 1 + many[1] and time.monotonic() - began < closed + 60:
                time.sleep(0.05)
            stored = time.monotonic() - began
        self.note(program.name, "write large", (many[0] << 20) / took["large"])
        self.note(program.name, "write small", many[1] / took["small"])
        self.note(program.name, "write stored", stored - closed)
        with closing(program.mount(self.world.folder("cache"), prefix, True)) as mount:
            back = self.io("check", mount.where, *many)
        self.note(program.name, "written wrong", back["wrong"])

    def disk_written(self):
        many, where = self.written_sizes, self.world.folder("written")
        took = self.io("write", where, *many)
        self.note(DISK, "write large", (many[0] << 20) / took["large"])
        self.note(DISK, "write small", many[1] / took["small"])
        self.world.forget(where)

    def changed(self, program):
        """What a reader gets of objects that somebody replaced (by as many other bytes) or deleted after mounting."""
        if not program.in_place:
            return
        home, prefix = self.world.folder("changed"), f"changed-{program.name}/"
        for name, size in (("whole", 1), ("half", 64)):
            for age in ("old", "new"):
                (home / f"{age}-{name}").write_bytes(mib(size))
        body = lambda age, name: (home / f"{age}-{'half' if name == 'half' else 'whole'}").read_bytes()
        self.store.mark(prefix)
        names = ("cached-replaced", "cached-deleted", "replaced", "deleted", "half")
        for name in names:
            self.store.put_bytes(prefix + name, body("old", name))
        with closing(program.mount(self.world.folder("cache"), prefix)) as mount:
            look = lambda name: run(sys.executable, IO, "look", home / "old-whole", home / "new-whole", mount.where / name).strip()
            run("ls", "-l", mount.where)
            for name in names[:2]:
                look(name)
            for name in names[:4]:
                if name.endswith("deleted"):
                    self.store.delete(prefix + name)
                else:
                    self.store.put_bytes(prefix + name, body("new", name))
            forget_pages()
            for name in names[:4]:
                self.attempt(program.name, f"source: {name}", lambda name=name: self.note(program.name, f"source: {name}", look(name)))
            words = [sys.executable, str(IO), "halves", str(home / "old-half"), str(home / "new-half"), str(mount.where / "half")]
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
                try:
                    reader.stdout.readline()
                    self.store.put_bytes(prefix + "half", body("new", "half"))
                    said = reader.communicate("\n", timeout=LONGEST)[0]
                finally:
                    reader.kill()
            self.note(program.name, "source: while-read", said.strip())

    def unmount_all(self):
        for mount in list(self.world.mounts):
            mount.close()

    # --- the run --------------------------------------------------------------------------------------

    def choose(self, wanted):
        for kind in PROGRAMS:
            program = kind(self.world, self.store)
            if wanted and program.program not in wanted and program.name not in wanted:
                continue
            if not program.path:
                self.left_out[program.name] = "not here"
                continue
            try:
                self.versions[program.name] = program.version()
                program.prepare({f"{SET}{name}/": folder for name, folder in self.sets.items()})
                self.programs[program.name], self.results[program.name] = program, {}
            except FAILS as e:
                self.left_out[program.name] = str(e)[-200:]
        for name, why in self.left_out.items():
            print(f"left out: {name} ({why})", flush=True)

    def drop(self, name, why):
        print(f"left out: {name} ({why})", flush=True)
        self.left_out[name] = why
        self.results.pop(name, None)
        del self.programs[name]

    def once(self):
        self.attempt(DISK, "write large", self.disk_written)
        for name, program in self.programs.items():
            began = time.monotonic()
            for row, step in (("killed: errors", self.killed), ("write large", self.written), ("source: replaced", self.changed)):
                self.attempt(name, row, lambda step=step, program=program: step(program))
                self.unmount_all()
            print(f"  {name}: killed, written, changed ({time.monotonic() - began:.0f} s)", flush=True)

    def all(self):
        longest = 0
        for repeat in range(self.options.repeats):
            began = time.monotonic()
            if repeat and began + longest > self.ends:
                return repeat
            names = [DISK, *self.programs]
            random.Random(repeat).shuffle(names)
            for name in names:
                started = time.monotonic()
                if name == DISK:
                    self.disk_turn(repeat)
                else:
                    try:
                        self.turn(self.programs[name], repeat)
                    except FAILS as e:
                        self.drop(name, str(e)[-200:])
                print(f"  {name}: turn {repeat + 1} ({time.monotonic() - started:.0f} s)", flush=True)
            longest = max(longest, time.monotonic() - began)
            if repeat == 0:
                self.once()
        return self.options.repeats


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", default="build/bench")
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        sys.exit("bench-peers: needs root and /dev/fuse (it mounts, and drops the page cache between passes)")
    quick = bool(os.environ.get("BENCH_QUICK"))
    full = not (quick or options.names or options.minutes or options.repeats or options.scale != 1)
    options.repeats = options.repeats or (2 if quick else 3)
    began = time.monotonic()
    ends = began + 60 * (options.minutes or (4 if quick else 15))
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(143))  # so that World.close() ends what was started
    world = World(options.dir, quick)
    try:
        trial = Trial(world, options, ends)
        trial.choose(options.names)
        repeats = trial.all()
        text = peer_report.table(trial, repeats, time.monotonic() - began)
        (world.base / "peers.md").write_text(text)
        print("\n" + text)
        if full:
            peer_report.publish(Path("docs/benchmarks/peers.md"), text)
    except RuntimeError as e:
        sys.exit(f"bench-peers: {e}")
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        world.close()


if __name__ == "__main__":
    main()
