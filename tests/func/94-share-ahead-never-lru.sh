#!/usr/bin/env bash
# Every epoch reads another half of the set here, and the cache holds a part of that half. What leaves while an epoch
# is read is what the next one does not read: when that begins, all but the samples seen last are its own, and
# each stays until it has been read. LRU would hold what was read last, of which the next epoch reads half.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_command getfattr
N=400
make_set --classes 4 --files $((N / 2)) --size 100000
start_nginx
SPEC=torch-distributed,ranks=2,batch-size=8
SEEN_LAST=$((N / 16 + 1)) # their reads may go on
find "$SRC" -mindepth 2 -type f | LC_ALL=C sort | sed "s|^$SRC/||" >"$T/numbered"
for e in 0 1 2 3; do
    sampan plan --count $((2 * N)) --sampler "$SPEC,rank=0,epoch=$e" --print order | "$PYTHON" -c '
import sys
paths = open(sys.argv[1]).read().split("\n")
print("\n".join(paths[int(n)] for n in sys.stdin))' "$T/numbered" >"$T/order$e"
    LC_ALL=C sort "$T/order$e" >"$T/reads$e"
done
both() { LC_ALL=C comm -12 "$@" | wc -l; }
read_epoch() { # EPOCH : prints which of $T/own are no longer there when their turn comes
    "$PYTHON" - "$T/order$1" "$T/own" "$MNT" "$SRC" <<'PY' || fail "a wrong sample in epoch $1"
import os, sys
order, own = ([line.strip() for line in open(name)] for name in sys.argv[1:3])
for path in order:
    if path in own and os.getxattr(f"{sys.argv[3]}/{path}", "user.sampan.cached") != b"yes":
        print(path)
    with open(f"{sys.argv[3]}/{path}", "rb") as got, open(f"{sys.argv[4]}/{path}", "rb") as want:
        assert got.read() == want.read(), path
PY
}
there() { # the samples that the cache has
    (cd "$MNT" && getfattr -n user.sampan.cached class-*/*.bin) | awk '/^# file: / { f = $3 } /="yes"/ { print f }' | LC_ALL=C sort
}
ready() { # EPOCH : the cache has its samples alone, but for those seen last
    there >"$T/there"
    held=$(wc -l <"$T/there") own=$(both "$T/there" "$T/reads$1")
    [ "$held" -ge 100 ] && [ "$own" -ge $((held - SEEN_LAST)) ] && [ "$(status fetch.in_flight)" = 0 ]
}

# Pushed samples are read unseen: the smallest window.
mount_set "$HTTP_URL/" --no-hedge --cache "ssd:$CACHE=24MB" --partition 0/2 --sampler "$SPEC" --ahead-bytes 1GB --push-window 1
: >"$T/own"
read_epoch 0
for e in 1 2 3; do
    until_true 40 ready $e || fail "before epoch $e: of $held samples in the cache it reads $own: $(status epochs_ahead)"
    by_lru=$(both <(tail -n "$held" "$T/order$((e - 1))" | LC_ALL=C sort) "$T/reads$e")
    at_most "of as many read last, epoch $e reads" "$by_lru" $((held - 2 * SEEN_LAST / 3))
    echo "epoch $e reads $own of the $held samples held, and of as many under LRU $by_lru"
    at_least "more than LRU's" "$own" $((by_lru + 1))
    LC_ALL=C comm -12 "$T/there" "$T/reads$e" >"$T/own"
    drop_pages
    sampan set "$MNT" epoch=$e
    expect "of them gone before epoch $e has read them" "$(read_epoch $e)" ""
done
unmount
