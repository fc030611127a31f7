#!/usr/bin/env bash
# Writing to the cache fails with EIO in the middle of fills, then in journal writes alone: reads go on.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
make_set --classes 2 --files 30 --size 20000..300000
for files in '*.pack' '*.idx'; do
    meddle_args=()
    only_files "$files"
    rm -rf "$CACHE"
    mount_breakable write EIO
    break_disk
    served_right 1
    expect "state" "$(status cache.tiers.0.state)" failed
    [[ $(status cache.tiers.0.why) == *"Input/output error"* ]] || fail "why: $(status cache.tiers.0.why)"
    expect "errors" "$(status reads.errors)" 0
    mend_disk
    unmount
    at_least "refused writes to $files" "$(refusals)" 1
    mount_set "file://$SRC"
    sampan warmup "$MNT" --verify --quiet
    served_right 1
    expect "corrupt" "$(status reads.corrupt_repaired)" 0
    unmount
done
nothing_left
