#!/usr/bin/env bash
# set MOUNT partition, strategy and sampler change a running mount's share; wrong ones change nothing and
# say what is meant; a list of paths is brought only as far as it is in the share.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 20
mount_set "file://$SRC"
all=$(status set.samples)
expect "an undivided set" "$(status partition)" null
expect "all of it" "$(sampan warmup "$MNT" --dry-run --json | field samples)" "$all"
sampan set "$MNT" partition=1/4
expect "dealt by hash without a sampler" "$(status partition.strategy)" hash
share=$(sampan warmup "$MNT" --dry-run --json | field samples)
[ "$share" -gt 0 ] && [ "$share" -lt "$all" ] || fail "a quarter of $all is not $share"
sum=0
for i in 0 1 2 3; do
    sum=$((sum + $(sampan warmup "$MNT" --partition $i/4 --dry-run --json | field samples)))
done
expect "the shares are the set" "$sum" "$all"
sampan set "$MNT" sampler=random,ranks=4,batch-size=4,shuffle=true
expect "as the sampler reads" "$(status partition.strategy)" random
expect "this node's rank alone is its order" "$(status order.length)" "$(sampan plan "$MNT" --sampler random,ranks=4,rank=1,batch-size=4,shuffle=true --print order | wc -l)"
before=$(sampan plan "$MNT" --sampler random,ranks=4,batch-size=4,shuffle=true --partition 1/4 --print partition)
sampan set "$MNT" epoch=1
expect "the share's epoch" "$(status partition.epoch)" 1
[ "$before" != "$(sampan plan "$MNT" --sampler random,ranks=4,batch-size=4,shuffle=true,epoch=1 --partition 1/4 --print partition)" ] || fail "another epoch is another share"
sampan set "$MNT" strategy=sequence
expect "a strategy by name" "$(status partition.strategy)" sequence
find "$MNT" -type f -not -path '*/.*' >"$T/list"
expect "a list, as far as it is here" "$(sampan warmup "$MNT" --from "$T/list" --json | field samples)" "$(sampan warmup "$MNT" --dry-run --json | field samples)"
expect "all of it is wanted" "$(sampan warmup "$MNT" --partition 0/1 --dry-run --json | field samples)" "$all"
refused 2 "there are 4 partitions" sampan set "$MNT" partition=4/4
refused 2 "want I/P" sampan set "$MNT" partition=4
refused 2 "there are only $all samples" sampan set "$MNT" partition=0/60000
refused 2 "known: sequence, random, hash, local" sampan set "$MNT" strategy=best
refused 2 'only the sampler "local"' sampan set "$MNT" strategy=local
expect "what was refused changed nothing" "$(status partition.strategy) $(status partition.partitions)" "sequence 4"
refused 2 "is numbered otherwise" sampan warmup "$MNT" --sampler random,list=a.txt
sampan set "$MNT" partition= strategy=
expect "undivided again" "$(status partition)" null
refused 2 "of which partition" sampan warmup "$MNT" --strategy hash
sampan warmup "$MNT" --sampler random,ranks=2,rank=1,batch-size=4 --json >"$T/half"
expect "rank= says which partition" "$(field samples <"$T/half")" \
    "$(sampan plan "$MNT" --sampler random,ranks=2,batch-size=4 --json | field partitions.1 | "$PYTHON" -c 'import json, sys; p = json.load(sys.stdin); print(p["samples"] + p["repeats"])')"
unmount
# A set that is not mounted.
sampan warmup "file://$SRC" --cache "ssd:$CACHE=1GiB" --strategy hash --partition 0/2 --json >"$T/unmounted"
at_most "half of the set" "$(field samples <"$T/unmounted")" "$((all * 3 / 4))"
