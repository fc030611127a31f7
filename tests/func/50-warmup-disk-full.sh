#!/usr/bin/env bash
# The disk fills up under a warmup, by another program: it stops filling, says what is not there
# and why, exits with 1, and claims no more than is so. Nothing that was there is lost, every sample is still read right,
# and with room again the rest comes.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_command getfattr
need_root "mounts a small tmpfs"
make_set --classes 2 --files 40 --size 200000..300000
mkdir "$T/small"
mount -t tmpfs -o size=40m tmpfs "$T/small"
on_exit "umount -l $T/small"
start_nginx
mount_set "$HTTP_URL/" --cache "ssd:$T/small/cache=1GiB" --free-space 0 --bandwidth 1MB
warm() {
    sampan warmup "$MNT" --json "$@" >"$T/warm" 2>"$T/warm.err"
}
there() { # how many samples the cache has, all of each
    getfattr --absolute-names -n user.sampan.cached "$MNT"/*/*.bin | grep -c '="yes"' || true
}

warm &
pid=$!
some_came() { [ "$(status cache.tiers.0.used)" -ge 2500000 ]; } # 8 samples of at most 300 000 bytes are on the disk
until_true 30 some_came || fail "nothing comes: $(cat "$T/warm.err")"
head -c 60M /dev/zero >"$T/small/another-program" 2>"$T/full" && fail "the disk has room"
sampan set "$MNT" bandwidth=0
code=0
wait "$pid" || code=$?
[ "$code" = 1 ] || fail "exit code $code: $(cat "$T/warm" "$T/warm.err")"
there=$(there)
left=$(($(field failed <"$T/warm") + $(field unfit <"$T/warm")))
expect "what is there and what is said to be missing" "$((there + left))" 80
at_least "samples there" "$there" 8
at_least "samples missing" "$left" 20
grep -Eqi 'space|full|room|fit' "$T/warm" "$T/warm.err" || fail "it does not say why: $(cat "$T/warm.err")"
[ "$(status warmup.state)" = failed ] || fail "status: $(status warmup)"
drop_pages
same_bytes "$SRC" "$MNT"
expect "errors and repaired samples" "$(status reads.errors) $(status reads.corrupt_repaired)" "0 0"
at_least "samples there after all were read" "$(there)" 8

rm "$T/small/another-program"
until_true 30 warm --verify || fail "with room again: $(cat "$T/warm.err") $(status cache.tiers)"
expect "verified, there" "$(field verified <"$T/warm") $(there)" "true 80"
: >"$T/log/nginx.access"
drop_pages
same_bytes "$SRC" "$MNT"
expect "asked of the store" "$(wc -l <"$T/log/nginx.access")" 0
unmount
umount "$T/small"

# What cannot fit above the floor of free space is refused before its first byte.
mkdir "$T/smaller" "$SRC/large"
mount -t tmpfs -o size=20m tmpfs "$T/smaller"
on_exit "umount -l $T/smaller"
head -c 19000000 /dev/urandom >"$SRC/large/one"
: >"$T/log/nginx.access"
mount_set "$HTTP_URL/large/" --cache "ssd:$T/smaller/cache=1GiB"
refused 4 "the cache has room for" sampan warmup "$MNT"
expect "requests for it" "$(grep -c 'GET /large/one' "$T/log/nginx.access")" 0
unmount
umount "$T/smaller"
nothing_left
