#!/usr/bin/env bash
# The cache's disk takes no more: room can be made there all the same, and who unmounts samples, which are only read, is told,
# and they are unmounted: nothing is lost.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
make_set --classes 2 --files 20 --size 20000..100000
only_files '*.pack'
mount_breakable sync EIO
find "$MNT" -type f -exec cat {} + >/dev/null # a warmup would end with a flush
break_disk
sampan evict "$MNT" --to 1MiB >"$T/evicted"
at_most "bytes cached" "$(status cache.bytes)" $((1 << 20))
sampan umount "$MNT" 2>"$T/said" || fail "it is refused: $(cat "$T/said")"
grep -q "^sampan umount: cache: sync $CACHE/[0-9]*.pack: Input/output error: what is cached there may have to be fetched again$" \
    "$T/said" || fail "it says: $(cat "$T/said")"
expect "lines" "$(wc -l <"$T/said")" 1
mend_disk
at_least "refused calls" "$(refusals)" 1
mount_set "file://$SRC"
served_right 1
unmount
nothing_left
