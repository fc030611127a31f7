"""The table of peers.py: a row for each thing measured, a column for each program."""
import os
import statistics
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

from world import machine

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


RATE, MB, SECONDS, MIB, COUNT, WORDS = (
    number, lambda v: number(v / 1e6), lambda v: f"{v:.2f}" if v < 10 else f"{v:.1f}", lambda v: number(v / 2**20), lambda v: f"{v:,.0f}", str)

# key, what it says, how a figure is shown, whether more is better (None: no best)
ROWS = [
    ("ready", "mounted, its root listed, s", SECONDS, False),
    ("walk first", "find + stat, first walk, entries/s", RATE, True),
    ("walk second", "second walk, entries/s", RATE, True),
    ("samples cold 8", "cold, 115 KB, T=8, samples/s", RATE, True),
    ("small cold 8", "cold, 4 KB, T=8, samples/s", RATE, True),
    ("large cold 8", "cold, 146 MB, T=8, MB/s", MB, True),
    ("warmup", "warmup of all by its own verb, s", SECONDS, False),
    ("samples first 1", "first epoch, cache full, no pages, 115 KB, T=1", RATE, True),
    ("samples told 1", "… told the order", RATE, None),
    ("samples first 8", "the same, T=8", RATE, True),
    ("samples told 8", "… told the order", RATE, None),
    ("small first 8", "the same, 4 KB, T=8", RATE, True),
    ("large first 1", "the same, 146 MB, T=1, MB/s", MB, True),
    ("large first 8", "the same, 146 MB, T=8, MB/s", MB, True),
    ("samples hot 8", "hot epoch, 115 KB, T=8, samples/s", RATE, True),
    ("small hot 8", "hot epoch, 4 KB, T=8, samples/s", RATE, True),
    ("cpu cold", "its CPU seconds for 10 000 samples of 115 KB, cold", SECONDS, False),
    ("cpu first", "… first epoch, T=8", SECONDS, False),
    ("resident", "resident after the cold epochs, MiB", MIB, False),
    ("wrong", "wrong samples when all bytes are compared", COUNT, None),
    ("killed: errors", "killed under 8 readers: failed reads", COUNT, False),
    ("killed: wrong", "… wrong bytes", COUNT, None),
    ("killed: pause", "… longest pause, ms", lambda v: v if isinstance(v, str) else number(v), False),
    ("write large", "write a large file and close it, MB/s", MB, True),
    ("write small", "files of 16 KiB, one after another, files/s", RATE, True),
    ("write stored", "… after the last close, until all is in the store, s", SECONDS, None),
    ("written wrong", "… missing or wrong when mounted anew", COUNT, None),
    ("source: cached-replaced", "an object that was read, then replaced at its source", WORDS, None),
    ("source: cached-deleted", "… read, then deleted", WORDS, None),
    ("source: replaced", "… replaced before its first read", WORDS, None),
    ("source: deleted", "… deleted before its first read", WORDS, None),
    ("source: while-read", "… 64 MiB replaced while they are read", WORDS, None),
]


def middle(values):
    """The median of what was measured; a reason where nothing was."""
    figures = [v for v in values if not isinstance(v, str)]
    return statistics.median(figures) if figures else values[0]


def cells(results, row, show, more):
    """A cell for each program; the best of those that mount is bold."""
    have = {name: middle(rows[row]) for name, rows in results.items() if row in rows}
    if not have:
        return None
    figures = [v for name, v in list(have.items()) if not isinstance(v, str) and name in list(results)[1:]]
    best = None if more is None or len(figures) < 2 else (max if more else min)(figures)
    line = []
    for name, rows in results.items():
        if row not in rows:
            line.append("")
            continue
        value = have[name]
        text = value if isinstance(value, str) else show(value)
        line.append(f"**{text}**" if best is not None and value == best and name != list(results)[0] else text)
    return line


def table(trial, repeats, seconds):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    sizes = ", ".join(f"{files:,} of {size:,} bytes" for files, size in trial.sizes.values())
    written = trial.written_sizes
    command = "make bench-peers" + (f" PEERS='{' '.join(sys.argv[3:])}'" if sys.argv[3:] else "") + (" BENCH_QUICK=1" if trial.world.quick else "")
    out = [
        f"Measured {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC at {commit or 'an unknown commit'} by `{command}` in {seconds / 60:.0f} min, programs, MinIO and readers "
        f"on one machine: {machine()}; load {os.getloadavg()[2]:.1f}. Files: {sizes}; written: {written[0]} MiB and {written[1]:,} files. "
        f"Medians of {repeats} turns in random order; T: readers. Best of those that mount in bold.", "",
        "| | " + " | ".join(trial.results) + " |", "| --- |" + " ---: |" * len(trial.results)]
    for row, title, show, more in ROWS:
        line = cells(trial.results, row, show, more)
        if line:
            out.append(f"| {title} | " + " | ".join(line) + " |")
    out += ["", "Versions and settings:", "", f"- MinIO {trial.versions['MinIO']}"]
    for name, program in trial.programs.items():
        out.append(f"- {name} ({trial.versions[name]}): {program.about}")
    out += [f"- left out: {name} ({why})" for name, why in trial.left_out.items()]
    return "\n".join(out) + "\n"


def publish(page, text):
    """Puts the table between the page's marks; what is written around it stays."""
    have = page.read_text()
    before, rest = have.split(BEGIN, 1)
    page.write_text(f"{before}{BEGIN}\n{text}{END}{rest.split(END, 1)[1]}")
    print(f"wrote {page}")
