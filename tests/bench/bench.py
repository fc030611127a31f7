#!/usr/bin/env python3
"""Measures what Sampan owes, each row beside the plain disk or plain GETs in the same run.

    bench.py --dir DIR [ROW...]      (BENCH_QUICK=1: smaller sets, three repeats)

Passes alternate; ratios are of medians. Every pass is one line of DIR/raw-DATE.jsonl. A missed target is
printed as missed. See docs/benchmarks.md for the last full run.
"""
import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import rows  # noqa: E402
import rows_article  # noqa: E402
import rows_au  # noqa: E402
import rows_csi  # noqa: E402
import rows_loader  # noqa: E402
import rows_nodes  # noqa: E402
import rows_operator  # noqa: E402
import rows_peers  # noqa: E402
import rows_server  # noqa: E402
import rows_writable  # noqa: E402
from world import World, machine  # noqa: E402


class Bench:
    """Collects raw passes and table lines; rows.py fills it."""

    def __init__(self, world, raw):
        self.world, self.raw, self.lines = world, raw, []
        self.repeats = 3 if world.quick else 5
        self.row = ""

    def note(self, **fields):
        fields = {"row": self.row, "at": time.time(), "load": os.getloadavg()[0], "kernel": platform.release(), **fields}
        self.raw.write(json.dumps(fields) + "\n")
        self.raw.flush()

    def alternate(self, **variants):
        """Runs each variant in turn, `repeats` times; returns the median of what each gives."""
        got = {name: [] for name in variants}
        for repeat in range(self.repeats):
            for name, measure in variants.items():
                value = measure(repeat)
                got[name].append(value)
                self.note(variant=name, repeat=repeat, value=value)
        return {name: statistics.median(values) for name, values in got.items()}

    def line(self, what, figures, value, owes, at_least=True, unit=""):
        """One line of the table; `owes` None: shown for information."""
        met = None if owes is None else (value >= owes if at_least else value <= owes)
        verdict = {None: "", True: "yes", False: "MISSED"}[met]
        sign = "" if owes is None else (">= " if at_least else "<= ")
        shown = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        row = (what, figures, shown + unit, f"{sign}{owes:g}{unit}" if owes is not None else "", verdict)
        self.lines.append(row)
        print("  {:<58} {:<40} {:>9} {:>9} {}".format(*row), flush=True)


def report(bench, path, missing, command):
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    out = [
        "# Benchmarks", "",
        f"Measured {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC at {done.stdout.strip() or 'an unknown commit'} by `{command}`, "
        f"everything on one machine: {machine()}.", "",
        "Native is ext4 (files read back after dropping the page cache, then one warm-up pass). Passes alternate,",
        f"{bench.repeats} repeats, medians; raw passes are in `build/bench/raw-*.jsonl`. Plain GETs are curl with as many",
        "connections to the same server. A missed target says so.", "",
        "| what | figures | measured | owes | met |", "| --- | --- | --- | --- | --- |",
    ]
    out += ["| " + " | ".join(line) + " |" for line in bench.lines]
    if missing:
        out += ["", "Not measured in this run:", ""] + [f"- {name}: {why}" for name, why in missing]
    path.write_text("\n".join(out) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", default="build/bench")
    parser.add_argument("rows", nargs="*")
    options = parser.parse_args()
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        sys.exit("bench: needs root and /dev/fuse (it mounts, and drops the page cache between passes)")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that World.close() ends what was started
    quick = bool(os.environ.get("BENCH_QUICK"))
    world, missing = World(options.dir, quick), []
    raw_name = world.base / f"raw-{datetime.now():%Y%m%d-%H%M%S}.jsonl"
    try:
        with open(raw_name, "w", encoding="ascii") as raw:
            bench = Bench(world, raw)
            named = {**rows_article.NAMED, **rows_au.NAMED}
            for name, measure in {**rows.ROWS, **rows_loader.ROWS, **rows_nodes.ROWS, **rows_peers.ROWS, **rows_server.ROWS,
                                  **rows_writable.ROWS, **rows_csi.ROWS, **rows_operator.ROWS, **named}.items():
                if name not in options.rows if options.rows else name in named:
                    continue
                bench.row, began = name, time.monotonic()
                print(f"{name}:", flush=True)
                try:
                    measure(bench)
                except (RuntimeError, OSError, KeyError, subprocess.SubprocessError) as e:
                    print(f"  not measured: {e}")
                    missing.append((name, str(e)))
                for mount in list(world.mounts):
                    mount.close()
                print(f"  ({time.monotonic() - began:.0f} s)", flush=True)
    finally:
        world.close()
    full = not quick and not options.rows
    path = Path("docs/benchmarks.md") if full else world.base / "benchmarks.md"
    report(bench, path, missing, "make bench" if full else "make bench, in part")
    print(f"wrote {path} and {raw_name}")
    missed = sum(line[4] == "MISSED" for line in bench.lines)
    print(f"{len(bench.lines)} rows, {missed} missed, {len(missing)} not measured")


if __name__ == "__main__":
    main()
