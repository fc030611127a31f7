#!/usr/bin/env bash
# A cache of half the set, epochs that are permutations: as many samples come from it as it holds, C/D, which
# no policy beats; LRU over the same orders gets less. Counted in the store's log, pages dropped before each
# epoch. (SLOW=1: at five ratios; the rows of docs/benchmarks/placement.md are its last lines.)
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
N=400
make_set --classes 4 --files $((N / 4)) --size 100000
start_nginx
gets() { grep -c '^GET /class[^ ]*\.bin' "$T/log/nginx.access" || true; }
read_epoch() { # SEED
    drop_pages
    "$PYTHON" -c '
import os, random, sys
paths = sorted(os.path.join(d, f) for d, _, fs in os.walk(sys.argv[1]) for f in fs)
random.Random(int(sys.argv[2])).shuffle(paths)
for path in paths:
    with open(path, "rb") as f:
        assert len(f.read()) == 100000, path' "$MNT" "$1"
}
lru() { # SAMPLES : the hit ratio of LRU over epochs 1..3 of the same permutations
    "$PYTHON" "$SAMPAN_TESTS/lib/lru.py" $N "$1" 3
}
ratios=0.5
[ "${SLOW:-}" != 1 ] || ratios="0.1 0.3 0.5 0.7 0.9"
for ratio in $ratios; do
    rm -rf "$CACHE"
    limit=$(awk -v r="$ratio" -v n=$N 'BEGIN { printf "%d", r * n * 100400 + 200000 }')
    mount_set "$HTTP_URL/" --no-hedge --cache "ssd:$CACHE=$limit"
    read_epoch 0
    before=$(gets)
    held=$(status cache.samples)
    reads=$(status reads.total)
    for seed in 1 2 3; do read_epoch $seed; done
    asked=$(($(gets) - before))
    expect "what it holds stays" "$(status cache.samples)" "$held"
    # Of pages that the kernel took back before the reader had them, it asks a second time.
    again=$(($(status reads.total) - reads - 3 * N))
    at_least "asked of the store in three epochs, $held of $N held" "$asked" "$((3 * (N - held)))"
    at_most "asked of the store in three epochs, $held of $N held" "$asked" "$((3 * (N - held) + again))"
    mine=$(awk -v a=$asked -v n=$N 'BEGIN { printf "%.3f", 1 - a / n / 3 }')
    echo "| $ratio | $(awk -v h="$held" -v n=$N 'BEGIN { printf "%.3f", h / n }') | $mine | $(lru "$held") |"
    at_least "more than LRU" "$mine" "$(lru "$held")"
    unmount
done
