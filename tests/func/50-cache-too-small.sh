#!/usr/bin/env bash
# Files that the cache has no room for come from the store once a time that they are read, however small the reads, and
# though several are read at a time, each with what lies ahead of its reader. (A block more, where a reader overtook what
# was to lie ahead of it.)
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
start_nginx
mkdir -p "$SRC/d"
size=9400000
for i in 1 2 3; do head -c $size /dev/urandom >"$SRC/d/$i"; done
for i in $(seq 4 12); do cp "$SRC/d/1" "$SRC/d/$i"; done
mount_set "$HTTP_URL/" --cache "ssd:$CACHE=1MiB"
fetched() { # WHAT FILES : since it was asked last
    local now
    now=$(status fetch.bytes)
    at_most "$1: bytes from the store" $((now - had)) $(($2 * (size + 4194304)))
    had=$now
}
ls -R "$MNT" >"$T/list"
had=$(status fetch.bytes)
for i in 1 2; do
    cmp "$SRC/d/1" "$MNT/d/1"
    fetched "one reader" 1
    drop_pages "$MNT"
done
dd if="$MNT/d/2" of="$T/copy" bs=5000 status=none
cmp "$SRC/d/2" "$T/copy"
fetched "small reads" 1
drop_pages "$MNT"
readers=()
for i in 1 2 3; do
    cmp "$SRC/d/$i" "$MNT/d/$i" &
    readers+=($!)
done
wait "${readers[@]}"
fetched "three readers" 3

# What all of them read at once is more than may be held for them: blocks are fetched as they are read, not over and over.
"$SAMPAN" umount "$MNT"
mount_set "$HTTP_URL/" --cache "ssd:$CACHE=1MiB" --memory 64MiB
had=$(status fetch.bytes)
readers=()
for i in $(seq 1 12); do
    cmp "$SRC/d/$i" "$MNT/d/$i" &
    readers+=($!)
done
wait "${readers[@]}"
fetched "twelve readers" 12
expect "samples kept" "$(status cache.samples)" 0
