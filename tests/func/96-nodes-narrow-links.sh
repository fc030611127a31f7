#!/usr/bin/env bash
# Four machines (network namespaces) with 50 Mbit/s each to one S3 store: no cache holds the set, together they
# do. A warmup asks the store for it; of the epochs after it, each dealt anew and read by all ranks through their
# mounts, the store hears nothing; with a server killed in the middle of one it is asked for that one's samples
# alone, and every byte is right.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_root "it makes network namespaces"
make_set --classes 4 --files 80 --size 100000
"$PYTHON" - "$SAMPAN_TESTS/lib" "$T" "$SRC" <<'PY' || exit $?
import sys
sys.path.insert(0, sys.argv[1])
from nodes import Nodes, unable

why = unable()
if why:
    print(f"SKIP: {why}")
    sys.exit(77)

def expect(what, got, want):
    if got != want:
        sys.exit(f"FAILED: {what}: got {got!s:.300}, want {want!s:.300}")

SPEC, LOST = "torch-distributed,ranks=4,batch-size=8", 3
with Nodes(sys.argv[2], sys.argv[3]) as nodes:
    nodes.mount("16MB", "--no-hedge")  # hedges ask the store when the machine stands still
    nodes.serve()
    orders = nodes.orders(SPEC, epochs=4)
    result = nodes.warmup("w", sampler=SPEC)
    expect("warmed", result["samples"], len(nodes.paths))
    expect("asked of the store", sorted(set(nodes.requests())), nodes.paths)
    before = len(nodes.requests())
    for epoch in (0, 1):
        nodes.begin_epoch(epoch)
        nodes.read_epoch(orders, epoch)
        expect(f"asked of the store in epoch {epoch}", nodes.requests()[before:], [])
    if sum(node.from_peers() for node in nodes.all) < len(nodes.paths) // 2:
        sys.exit("FAILED: they had nothing of one another")
    nodes.begin_epoch(2)
    nodes.read_epoch(orders, 2, nodes.all[LOST].kill)
    theirs = {nodes.paths[n] for n in orders[LOST][0]} # what it was warmed for
    expect("asked of the store, of what the others keep", sorted(set(nodes.requests()[before:]) - theirs), [])
    nodes.all[LOST].serve()
    for node in nodes.all:
        nodes.meet(node)
    before = len(nodes.requests())
    nodes.begin_epoch(3)
    nodes.read_epoch(orders, 3)
    expect("asked of the store when all are well again", nodes.requests()[before:], [])
    for node in nodes.all:
        expect(f"errors of node {node.i}", node.status()["reads"]["errors"], 0)
PY
