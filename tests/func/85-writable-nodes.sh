#!/usr/bin/env bash
# Three mounts make one output/ at once, each writes its own node_i/, and reads the others' growing logs.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_store # use_s3
for n in 0 1 2; do
    mount_writable_at $n "$STORE/job" --commit interval=200ms --refresh 300ms
done
cat >"$T/node.py" <<'PY'
import errno, os, sys, time
mine, n = sys.argv[1], int(sys.argv[2])
os.makedirs(mine + "/output/node_%d" % n, exist_ok=True)
log = open(mine + "/output/node_%d/log" % n, "w", buffering=1)
seen, lines = {}, 0
give_up = time.time() + 400
while lines < 100 or len([v for v in seen.values() if v >= 20]) < 2:
    if time.time() > give_up:
        sys.exit("node %d saw only %s" % (n, seen))
    log.write("node %d line %d\n" % (n, lines))
    lines += 1
    for other in {0, 1, 2} - {n}:
        try:
            with open(mine + "/output/node_%d/log" % other) as f:
                text = f.read()
        except FileNotFoundError:
            continue
        except OSError as e:  # stored anew between the open and the read: never mixed, so opened again
            assert e.errno == errno.ESTALE, e
            continue
        got = text.splitlines()
        assert text.endswith("\n") or not text or len(got) < 2 or got[-2] == "node %d line %d" % (other, len(got) - 2)
        for i, line in enumerate(got[:-1]):
            assert line == "node %d line %d" % (other, i), (n, other, i, line)
        assert len(got) >= seen.get(other, 0), "a log became shorter"
        seen[other] = len(got)
    time.sleep(0.05)
log.close()
PY
nodes=()
for n in 0 1 2; do
    "$PYTHON" "$T/node.py" "$T/mnt-$n" $n &
    nodes+=($!)
done
for pid in "${nodes[@]}"; do
    wait "$pid" || fail "a node failed"
done
for n in 0 1 2; do
    sampan flush "$T/mnt-$n"
    stored cat "job/output/node_$n/log" | cmp - "$T/mnt-$n/output/node_$n/log" || fail "log $n in the store"
    same_listing() { [ "$(ls "$T/mnt-$n/output")" = "$(printf 'node_0\nnode_1\nnode_2')" ]; }
    until_true 10 same_listing || fail "mount $n shows $(ls "$T/mnt-$n/output")"
done
for n in 0 1 2; do
    sampan umount "$T/mnt-$n"
done
