#!/usr/bin/env bash
# An option that would have no effect is refused: of a SET where a mount is given, which has its own, or of another kind of work.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 3
mount_set "file://$SRC"
of_sets=("--cache ssd:$T/other=1GiB" "--cache-dir $T/other" "--free-space 5%")
for option in "${of_sets[@]}" "--memory 512MiB" "--bandwidth 1MB" "--connections 3" "--log $T/log/warm" "--log-level debug" "--log-format json"; do
    # shellcheck disable=SC2086
    refused 2 "^sampan warmup: ${option%% *}: .*not mounted: $MNT has" sampan warmup "$MNT" $option
done
for option in "${of_sets[@]}" "--sampler sequence" "--connections 3" "--log $T/log/scan"; do
    # shellcheck disable=SC2086
    refused 2 "^sampan scan: ${option%% *}: .*not mounted: $MNT has" sampan scan "$MNT" $option
done
for option in "${of_sets[@]}"; do
    # shellcheck disable=SC2086
    refused 2 "^sampan doctor: ${option%% *}: .*not mounted: $MNT has" sampan doctor "$MNT" $option
    # shellcheck disable=SC2086
    refused 2 "^sampan doctor: ${option%% *}: goes with a SET" sampan doctor $option
done
refused 2 "^sampan plan: --cache-dir: .*not mounted: $MNT has" sampan plan "$MNT" --cache-dir "$T/other"
refused 2 "^sampan scan: --sampler: file://$SRC is mounted at $MNT" sampan scan "file://$SRC" --cache "ssd:$CACHE=1GiB" --sampler sequence
refused 2 "^sampan plan: --sample-size: goes with --count" sampan plan "$MNT" --sample-size 1M
refused 2 "^sampan plan: --cache-dir: goes with a SET" sampan plan --count 4 --cache-dir "$T/other"
refused 2 "^sampan plan: --free-space: goes with a SET" sampan plan --count 4 --free-space 5%
refused 2 "^sampan plan: --position: goes with --print token" sampan plan --count 4 --position 2
refused 2 "^sampan sync: --allow-empty: goes with --delete-dst" sampan sync "file://$SRC" "file://$T/other" --allow-empty
refused 2 "^sampan bench: --model: goes with another" sampan bench epoch "$MNT" --model unet3d
refused 2 "^sampan bench: --verify: goes with another" sampan bench au "$MNT" --verify
refused 2 "^sampan bench: --threads: goes with another" sampan bench meta "$MNT" --threads 2
refused 2 "^sampan bench: --passes: goes with another" sampan bench fetch "$MNT" --passes 2
refused 2 "^sampan bench: --seed: goes with --order shuffle" sampan bench epoch "$MNT" --seed 7
for what in au epoch; do
    refused 2 "^sampan bench: --seed: not with --sampler" sampan bench $what "$MNT" --seed 7 --sampler torch-random
done
[ ! -e "$T/other" ] || fail "a cache was made"
# What files and the environment say is said to all commands, and so is how the store is reached; what has an effect is taken.
SAMPAN_CACHE=ssd:$T/other=1GiB SAMPAN_CONNECTIONS=3 sampan warmup "$MNT" --verify --quiet
sampan scan "$MNT" --diff --quiet --endpoint http://127.0.0.1:1 --no-sign-request
sampan warmup "$MNT" --quiet --region nowhere
sampan plan "$MNT" --cache "mem:$T/none=1GiB" >"$T/plan"
SAMPAN_CACHE_DIR=$T/none SAMPAN_POSITION=2 sampan plan --count 4 --cache "mem:$T/none=1GiB" --sample-size 1M >"$T/plan"
sampan doctor --gc --cache-dir "$T/none" >"$T/doctor" || true # its exit code is of all of this machine
sampan bench epoch "$MNT" --order shuffle --seed 7 >"$T/bench"
SAMPAN_SEED=7 sampan bench epoch "$MNT" --sampler torch-random >"$T/bench"
sampan bench fetch "$MNT" --connections 3 --path-style --json >"$T/bench"
