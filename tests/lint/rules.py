#!/usr/bin/env python3
"""The project's own rules, which no compiler checks. Prints each breach as FILE:LINE: what; exit 1.

    rules.py [--longest] MODULE=FOLDER...

 - a header that ends in -internal.h is included by its own folder (and that module's unit tests) alone
 - a library of the outside is included only where docs/architecture.md says
 - a file has at most 700 lines, a function at most 100
 - no unfinished work, no path of one machine
"""
import os
import re
import subprocess
import sys

MAX_FILE, MAX_FUNCTION = 700, 100
# Header -> what may include it: files or folders.
ONLY = {
    "jansson.h": ["common/base/json.c", "common/base/json-write.c"],
    "openssl/": ["cachefs/object/sign-", "cachefs/catalog/", "common/base/hash", "operator/kube/config.c", "trainer/ps-secret.c"],
    "sqlite3.h": ["cachefs/catalog/", "cachefs/stage/", "runtime-server/jobs/"],
    "lz4": ["cachefs/cache/compress.c"],
    "fuse_lowlevel.h": ["cachefs/fuse/", "cachefs/outfuse/"],
    "fuse.h": ["cachefs/fuse/"],
    "grpc/": ["csi/rpc.c"],
    "dnnl": ["trainer/cpu-conv.c"],
    "cblas.h": ["trainer/backend-cpu.c"],
    "gloo/": ["trainer/coll-gloo.cc"],
    "yaml.h": ["operator/kube/yaml.c"],
    "jpeglib.h": ["trainer/loader/jpeg.c"],
    "curl/multi.h": ["cachefs/fetch/engine"],
    "curl/curl.h": ["common/base/http", "cachefs/fetch/engine", "cli/cmd-version.c"],
}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|not implemented)\b")
MACHINE = re.compile(r"(?<![\w.}])/(?:root|work|Users|home/[a-z]+)/")


def tracked():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], check=True,
                            capture_output=True, text=True).stdout
    return [f for f in listed.splitlines() if os.path.exists(f)]


def functions(lines):
    """(name, first line, length) of each function: its `{` and `}` stand in column one."""
    start = None
    for n, line in enumerate(lines, 1):
        if line.startswith("{") and start is None:
            start = n
        elif line.startswith("}") and start is not None:
            name, at = "?", start - 1
            while at > 0 and lines[at - 1].strip():
                found = re.match(r"^[A-Za-z_].*?([A-Za-z_0-9]+)\(", lines[at - 1])
                if found:
                    name = found[1]
                    break
                at -= 1
            yield name, start, n - start + 1
            start = None


def check_includes(path, lines, folders, say):
    here = os.path.dirname(path)
    for n, line in enumerate(lines, 1):
        found = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
        if not found:
            continue
        name = found[2]
        if name.endswith("-internal.h") and found[1] == '"':
            homes = {f for f in folders.values() if os.path.exists(os.path.join(f, os.path.basename(name)))}
            unit = re.match(r"tests/(unit|fuzz|layers)\b", path)
            if here not in homes and not unit:
                say(path, n, f"includes {name}, which is private to {', '.join(sorted(homes)) or 'nobody here'}")
        for header, allowed in ONLY.items():
            if name.startswith(header) and not path.startswith("tests/") and not any(path.startswith(a) for a in allowed):
                say(path, n, f"includes <{name}>: only {', '.join(allowed)} may")


def main():
    words = sys.argv[1:]
    longest = "--longest" in words
    folders = dict(w.split("=", 1) for w in words if "=" in w)
    breaches, lengths, sizes = [], [], []

    def say(path, line, what):
        breaches.append(f"{path}:{line}: {what}")

    for path in tracked():
        if path == "tests/lint/rules.py" or not re.search(r"\.(c|h|py|sh|mk|md)$|Makefile$|/run$", path):
            continue
        with open(path, encoding="utf-8", errors="replace") as text:
            lines = text.read().splitlines()
        for n, line in enumerate(lines, 1):
            if UNFINISHED.search(line):
                say(path, n, "unfinished work: " + line.strip()[:60])
            if MACHINE.search(line):
                say(path, n, "a path of one machine: " + line.strip()[:60])
        if not re.search(r"\.[ch]$", path):
            continue
        sizes.append((len(lines), path))
        if len(lines) > MAX_FILE:
            say(path, len(lines), f"{len(lines)} lines, at most {MAX_FILE}")
        check_includes(path, lines, folders, say)
        for name, start, length in functions(lines):
            lengths.append((length, f"{path}:{start} {name}"))
            if length > MAX_FUNCTION:
                say(path, start, f"{name}() has {length} lines, at most {MAX_FUNCTION}")

    if longest:
        for title, rows in (("files", sizes), ("functions", lengths)):
            rows.sort(reverse=True)
            middle = rows[len(rows) // 2][0] if rows else 0
            p90 = rows[len(rows) // 10][0] if rows else 0
            print(f"{title}: {len(rows)}, median {middle}, p90 {p90} lines")
            print("".join(f"  {n:5} {what}\n" for n, what in rows[:10]), end="")
    for breach in breaches:
        print(breach, file=sys.stderr)
    sys.exit(1 if breaches and not longest else 0)


if __name__ == "__main__":
    main()
