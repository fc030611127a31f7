#!/usr/bin/env python3
"""same-objects.py A B: two files of YAML objects hold the same ones; prints what differs. Exit 1 if anything does.

Namespaces are left out: one of the two ways makes its own. So is what Helm alone is told ("helm.sh/…").
"""
import sys

import yaml


def objects(path):
    with open(path) as text:
        found = {}
        for o in yaml.safe_load_all(text):
            if not o or o["kind"] == "Namespace":
                continue
            annotations = o["metadata"].get("annotations", {})
            for name in [n for n in annotations if n.startswith("helm.sh/")]:
                del annotations[name]
            if not annotations:
                o["metadata"].pop("annotations", None)
            key = (o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"])
            if key in found:
                raise SystemExit(f"{path}: twice: {key}")
            found[key] = o
        return found


def differences(a, b, path=""):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(set(a) | set(b), key=str):
            if key not in a or key not in b:
                yield f"{path}.{key}: only in the {'first' if key in a else 'second'}"
            else:
                yield from differences(a[key], b[key], f"{path}.{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            yield from differences(x, y, f"{path}[{i}]")
    elif a != b or type(a) is not type(b):
        yield f"{path}: {a!r} and {b!r}"


def main():
    first, second = objects(sys.argv[1]), objects(sys.argv[2])
    found = [f"{' '.join(key)}: only in the {'first' if key in first else 'second'}" for key in set(first) ^ set(second)]
    for key in set(first) & set(second):
        found += [f"{' '.join(key)}: {text}" for text in differences(first[key], second[key])]
    print(f"{len(first)} and {len(second)} objects, {len(found)} differences")
    for text in sorted(found):
        print(text)
    return 1 if found or not first else 0


sys.exit(main())
