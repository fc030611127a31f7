#!/usr/bin/env bash
# --ahead-bytes: while an epoch is read, what the next one reads here is fetched. Where it fits, no epoch
# asks the store for a sample of its own (local share 1.000); where it does not, no sample is fetched more
# often than epochs read it. Judged by the store's log.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 4 --files 120 --size 100000
start_nginx
SPEC=torch-distributed,ranks=3,batch-size=8
SHARE=$((4 * 120 / 3))
find "$SRC" -mindepth 2 -type f | LC_ALL=C sort | sed "s|^$SRC/||" >"$T/numbered"
order() { # EPOCH : the paths that rank 1 reads
    sampan plan --count 480 --sampler "$SPEC,rank=1,epoch=$1" --print order |
        "$PYTHON" -c '
import sys
paths = open(sys.argv[1]).read().split("\n")
print("\n".join(paths[int(n)] for n in sys.stdin))' "$T/numbered"
}
for e in 0 1 2 3 4; do order $e >"$T/order$e"; done
gets() { grep -o '^GET /class[^ ]*\.bin' "$T/log/nginx.access" | sed 's|^GET /||' || true; }
looked_at() { # EPOCH : all of it
    sampan status "$MNT" --json | "$PYTHON" -c '
import json, sys
a, epoch = json.load(sys.stdin)["epochs_ahead"], int(sys.argv[1])
sys.exit(not (a["epoch"] > epoch or a["epoch"] == epoch and a["length"] and a["position"] == a["length"]))' "$1"
}
at_rest() { # what was asked for came: nothing is on its way
    local before
    before=$(gets | wc -l)
    sleep 0.3
    [ "$(status fetch.in_flight)" = 0 ] && [ "$before" = "$(gets | wc -l)" ]
}
read_epoch() { # EPOCH
    "$PYTHON" -c '
import sys
for path in open(sys.argv[1]).read().split("\n")[:-1]:
    with open(sys.argv[2] + "/" + path, "rb") as f, open(sys.argv[3] + "/" + path, "rb") as want:
        assert f.read() == want.read(), path' "$T/order$1" "$MNT" "$SRC"
}

# One share and three quarters of another.
mount_set "$HTTP_URL/" --no-hedge --cache "ssd:$CACHE=28MB" --partition 1/3 --sampler "$SPEC" --ahead-bytes 1
sampan warmup "$MNT" --json >"$T/warm"
expect "the warmup brings the first epoch" "$(LC_ALL=C comm -23 <(LC_ALL=C sort "$T/order0") <(gets | LC_ALL=C sort) | wc -l)" 0
expect "once" "$(gets | LC_ALL=C sort | uniq -d | wc -l)" 0
for e in 0 1 2 3; do
    until_true 30 at_rest || fail "fetching does not end"
    before=$(gets | wc -l)
    # As much as the next epoch needs: what comes is its, and nothing of the one after it.
    sampan set "$MNT" ahead-bytes=$(LC_ALL=C comm -13 <(LC_ALL=C sort "$T/order$e") <(LC_ALL=C sort "$T/order$((e + 1))") | wc -l)00000
    drop_pages # readers are seen
    read_epoch $e
    until_true 60 looked_at $((e + 1)) || fail "epoch $((e + 1)) is not fetched: $(status epochs_ahead)"
    until_true 30 at_rest || fail "fetching does not end"
    gets | tail -n +$((before + 1)) | sort >"$T/fetched"
    LC_ALL=C sort "$T/order$e" >"$T/now"
    expect "asked for in epoch $e, of its own" "$(LC_ALL=C comm -12 "$T/now" <(LC_ALL=C sort "$T/fetched") | wc -l)" 0
    expect "fetched twice in epoch $e" "$(uniq -d "$T/fetched" | wc -l)" 0
    sampan set "$MNT" epoch=$((e + 1))
done
expect "fetched in vain" "$(status epochs_ahead.not_kept)" 0
at_most "the cache's limit" "$(status cache.tiers.0.used)" 28000000
sampan status "$MNT" | has "  ahead     epoch" || fail "status does not speak of what is fetched ahead"
unmount

# Half a share: set while mounted.
rm -rf "$CACHE"
: >"$T/log/nginx.access"
mount_set "$HTTP_URL/" --no-hedge --cache "ssd:$CACHE=13MB" --partition 1/3 --sampler "$SPEC"
sampan set "$MNT" ahead-bytes=1GB
for e in 0 1 2 3; do
    [ $e = 0 ] || drop_pages
    [ $e = 0 ] || sampan set "$MNT" epoch=$e
    read_epoch $e
done
until_true 30 at_rest || fail "fetching does not end"
expect "fetched in vain" "$(status epochs_ahead.not_kept)" 0
at_most "the cache's limit" "$(status cache.tiers.0.used)" 13000000
cat "$T"/order[01234] | LC_ALL=C sort | uniq -c >"$T/may" # the last for what is ahead now
# Of pages that the kernel took back before the reader had them, it asks a second time.
again=$(($(status reads.total) - 4 * SHARE))
gets | LC_ALL=C sort | uniq -c | "$PYTHON" -c '
import sys
may = {path: int(n) for n, path in (line.split() for line in open(sys.argv[1]))}
again = int(sys.argv[2])
for line in sys.stdin:
    n, path = line.split()
    again -= max(0, int(n) - may.get(path, 0))
    assert again >= 0, f"{path}: fetched {n} times, read in {may.get(path, 0)} epochs"' "$T/may" "$again"
at_least "what two epochs share, or half a share, was kept" "$((4 * SHARE + again - $(gets | wc -l)))" 1
refused 2 "is not a size" sampan set "$MNT" ahead-bytes=x
unmount
