#!/usr/bin/env bash
# A disk that has bytes and no inodes: a mount is refused, and doctor warns, with the word that helps; where they end while
# a cache fills, reads go on and status says why it does not grow.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_root "mounts a small tmpfs"
make_set --classes 2 --files 20
mkdir "$T/small"
mount -t tmpfs -o size=64m,nr_inodes=200 tmpfs "$T/small"
on_exit "umount -l $T/small"
left() { df --output=iavail "$T/small" | tail -1; }
leave() { # N inodes, before the cache is there
    rm -rf "$T/small/others" "$T/small/cache"
    mkdir "$T/small/others"
    local n=$(($(left) - $1))
    (cd "$T/small/others" && [ $n -le 0 ] || seq $n | xargs touch)
    expect "inodes left" "$(left | tr -d ' ')" "$1"
}
cache="--cache ssd:$T/small/cache=32MiB --free-space 0"
for n in 0 3 6; do
    leave $n
    refused 4 "cache: $T/small/cache: its file system has room for $n more files.*df -i.*--cache" sampan mount "file://$SRC" "$MNT" $cache
    [ ! -e "$T/small/cache" ] || fail "something is left: $(find "$T/small/cache")"
    code=0
    sampan doctor "file://$SRC" $cache >"$T/doctor" || code=$?
    expect "doctor's exit code" $code 1
    grep -q "^wrong .*no room for more files: $T/small/cache: $n more.*df -i" "$T/doctor" || fail "doctor says: $(cat "$T/doctor")"
done
leave 40
mount_set "file://$SRC" $cache
(cd "$T/small/others" && seq 1000 1040 | xargs touch 2>"$T/touch" || true)
expect "inodes left" "$(left | tr -d ' ')" 0
same_tree "$SRC" "$MNT"
is_full() { [ "$(status cache.tiers.0.state)" = full ]; }
until_true 20 is_full || fail "the tier is $(status cache.tiers.0.state)"
status cache.tiers.0.why | has "no inode is left there, see df -i" || fail "status says: $(status cache.tiers.0.why)"
sampan doctor "$MNT" >"$T/doctor" || fail "doctor says: $(cat "$T/doctor")"
grep "cache tier is full" "$T/doctor" | has -v "evict" || fail "doctor's cure is none: $(cat "$T/doctor")"
expect "errors" "$(status reads.errors)" 0
unmount
nothing_left
