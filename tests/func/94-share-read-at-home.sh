#!/usr/bin/env bash
# Three nodes divide a set: each warms exactly its own share (the store's log: every sample once, padded
# repeats twice), and reads its rank's epoch without asking the store again.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 4 --files 9
start_nginx
SPEC=torch-distributed,ranks=3,batch-size=4,epoch=5
sampan scan "$HTTP_URL/" --cache "ssd:$T/scan=1GiB" -o "$T/set.catalog" >"$T/scan.out"
plan() { sampan plan "$T/set.catalog" "$@"; }
: >"$T/log/nginx.access"
gets() { grep -c "^GET /class.*\.bin" "$T/log/nginx.access" || true; }
for i in 0 1 2; do
    mkdir -p "$T/m$i"
    on_exit "sampan umount '$T/m$i' || umount -l '$T/m$i'"
    sampan mount "$HTTP_URL/" "$T/m$i" --catalog "$T/set.catalog" --cache "ssd:$T/c$i=1GiB" --prefetch 1 \
        --partition $i/3 --strategy random --sampler "$SPEC"
done
want=0
for i in 0 1 2; do
    sampan warmup "$T/m$i" --dry-run --json >"$T/dry$i"
    sampan warmup "$T/m$i" --json >"$T/warm$i"
    share=$(field samples <"$T/warm$i")
    expect "the share of a dry run" "$(field samples <"$T/dry$i")" "$share"
    expect "status tells the share" "$(sampan status "$T/m$i" --json | field partition.samples)" "$share"
    expect "status tells the partition" "$(sampan status "$T/m$i" --json | field partition.partition)" "$i"
    want=$((want + share))
    # A second run finds all of it.
    sampan warmup "$T/m$i" --json >"$T/again$i"
    expect "already there" "$(field already <"$T/again$i")" "$share"
    expect "fetched again" "$(field fetched <"$T/again$i")" 0
done
plan --sampler "$SPEC" --json >"$T/plan.json"
expect "samples kept, repeats twice" "$want" "$("$PYTHON" -c '
import json, sys
plan = json.load(open(sys.argv[1]))
print(sum(p["samples"] + p["repeats"] for p in plan["partitions"]))' "$T/plan.json")"
expect "requests to the store" "$(gets)" "$want"
expect "samples asked for" "$(grep -o 'GET /class[^ ]*\.bin' "$T/log/nginx.access" | sort -u | wc -l)" "$(field samples <"$T/plan.json")"
# The real order through the real mounts, with the store gone.
stop_nginx
find "$SRC" -mindepth 2 -type f | LC_ALL=C sort >"$T/numbered"
for i in 0 1 2; do
    drop_pages "$T/m$i" 2>/dev/null || true
    plan --sampler "$SPEC,rank=$i" --print order >"$T/order$i"
    while read -r n; do
        file=$(sed -n "$((n + 1))p" "$T/numbered")
        cmp "$file" "$T/m$i/${file#"$SRC"/}" || fail "rank $i cannot read ${file#"$SRC"/}"
    done <"$T/order$i"
    n=$(tail -1 "$T/order$i")
    file=$(sed -n "$((n + 1))p" "$T/numbered")
    owner=$(getfattr --only-values -n user.sampan.partition "$T/m$i/${file#"$SRC"/}" 2>/dev/null || echo skip)
    [ "$owner" = skip ] || expect "owner by attribute" "$owner" \
        "$(plan --sampler "$SPEC" --print partition | awk -F'\t' -v n="$n" '$1 == n { split($2, k, ","); print k[1] }')"
done
for i in 0 1 2; do sampan umount "$T/m$i"; done
