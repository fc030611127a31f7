#!/usr/bin/env bash
# `warmup --from`: samples named twice are brought once; a list that names what is not there, what lies outside the
# set, nothing, or no text brings nothing, and the error says which line. Shares that cannot be are refused alike.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 3
mount_set "file://$SRC"
warm() { # NAME LINES… : warmed from this list
    printf '%b\n' "${@:2}" >"$T/$1"
    sampan warmup "$MNT" --from "$T/$1" --json
}
warm good class-000/000000.bin class-001 '' class-000/000000.bin "$MNT/class-000/000001.bin" class-001/000002.bin >"$T/out"
expect "samples, fetched, already" "$(field samples <"$T/out") $(field fetched <"$T/out") $(field already <"$T/out")" "5 5 0"
expect "cached" "$(status cache.samples)" 5
warm good class-000 class-000 >"$T/out"
expect "samples, fetched, already" "$(field samples <"$T/out") $(field fetched <"$T/out") $(field already <"$T/out")" "3 1 2"
warm good 'class-000/000001.bin\r' '\r' 'class-001\r' >"$T/out"
expect "samples of a list with other ends of lines" "$(field samples <"$T/out")" 4

sampan clear "$MNT" >"$T/out"
refused 3 "class-000/nowhere.bin" warm missing class-000/000000.bin class-000/nowhere.bin
for path in ../../etc/passwd class-000/../../../etc/passwd class-000/../class-001 ..; do
    refused 3 "$path" warm escapes class-000/000000.bin "$path"
done
for path in /etc/passwd "$MNT-beside/x" /; do refused 2 "not below $MNT" warm elsewhere class-000/000000.bin "$path"; done
refused 2 "no path in it" warm empty '' ''
refused 2 "zero byte" warm binary 'class-000/000000.bin\0class-001'
refused 3 "$T/none" sampan warmup "$MNT" --from "$T/none"
refused 1 "read the list: Is a directory" sampan warmup "$MNT" --from "$SRC"
for share in 0/0 3/0 0/65536 7/7 -1/3 1/2/3 x; do refused 2 partition sampan warmup "$MNT" --partition "$share"; done
refused 2 "only 6 samples" sampan warmup "$MNT" --partition 0/7
refused 2 "empty path" sampan warmup "$MNT" ""
expect "brought by what was refused" "$(status cache.samples)" 0

# A name is what it leads to: through links to the mount, with dots in it, from the folder where one is.
ln -s "$MNT" "$T/link"
mkdir "$T/beside"
brings() { # SAMPLES WORD… : of an empty cache
    sampan clear "$MNT" >"$T/out"
    sampan warmup "${@:2}" --json --quiet >"$T/out" || fail "warmup ${*:2}"
    expect "samples of ${*:2}" "$(field samples <"$T/out")" "$1"
}
for name in "$T/link/class-000" "$T/beside/../link/./class-000/" "$MNT/class-001/../class-000" "$MNT//class-000/." ./class-000//; do
    brings 3 "$MNT" "$name"
done
for set in "$T/link" "$T/link/." "$T/beside/../link" "$MNT/class-001/.."; do brings 1 "$set" class-000/000000.bin; done
cd "$T"
brings 3 link link/class-000
brings 3 link beside/../link/class-000
cd "$MNT/class-001"
brings 1 .. ../class-000/000001.bin
brings 1 "$T/link" 000001.bin
refused 2 "beside/x: not below $MNT" sampan warmup "$MNT" "$T/link/../beside/x"
cd "$T"
warm links "$T/link/class-000/000000.bin" "$MNT/./class-001" >"$T/out"
expect "samples of a list" "$(field samples <"$T/out")" 4

# All of a mount is meant by its mount point alone: not by what lies in it, is not there, or is empty.
for verb in "evict --to 0" status flush stats "scan --quiet" upgrade "plan --sampler sequence" "bench fetch"; do
    for below in nosuch class-000; do
        refused 3 "$below: not a mount point .it lies in the mount $MNT:" sampan $verb "$MNT/$below"
    done
done
refused 3 "not a mount point" sampan set "$MNT/class-000" memory=64MiB
refused 2 "empty path" sampan clear "$MNT" ""
refused 2 "empty path" sampan clear "$MNT" class-000 ""
refused 2 "/class-000: begins with /" sampan warmup "file://$SRC" /class-000 --cache "ssd:$T/unmounted=1GiB"
expect "left by what was refused" "$(status cache.samples)" 4
unmount

# Interrupted it says how far it was.
start_nginx
head -c 5000000 /dev/urandom >"$SRC/slow"
rm -r "$CACHE"
mount_set "$HTTP_URL/" --bandwidth 100kB
"$S" warmup "$MNT" --json >"$T/out" 2>"$T/err" &
warming=$!
runs() { [ "$(status warmup.samples_total)" = 7 ]; }
until_true 30 runs || fail "it does not begin: $(cat "$T/err")"
kill -INT $warming
code=0
wait $warming || code=$?
expect "exit code" "$code" 130
expect "state, samples" "$(field state <"$T/out") $(field samples <"$T/out")" "cancelled 7"
expect "status" "$(status warmup.state)" cancelled
unmount
rm "$SRC/slow"

# Names are bytes, those of mount points, too.
odd=$'h\xff'
mkdir "$SRC/$odd" "$T/$odd"
echo x >"$SRC/$odd/a"$'\xe4'
echo y >"$SRC/$odd/b"
CACHE=$T/cache-$odd
mount_set "file://$SRC" # the set's copy of before is elsewhere
expect "samples" "$(warm odd "$odd/a"$'\xe4' class-000 | field samples)" 4
expect "a folder" "$(sampan warmup "$MNT" "$MNT/$odd" --json | field samples)" 2
expect "behind" "$(sampan warmup "$MNT" "$odd" --background --json | field started)" true
warmed() { [ "$(status warmup.state)" = done ]; }
until_true 10 warmed
expect "dropped" "$(sampan clear "$MNT" "$odd/b" --json | field samples)" 1
unmount
mounts() { (MNT=$T/$odd && mount_set "file://$SRC"); }
mounts
expect "samples" "$(sampan warmup "$T/$odd" "$T/$odd/$odd" --json | field samples)" 2
sampan status "$T/$odd" >"$T/out"
sampan set "$T/$odd" bandwidth=50Mbit
sampan umount "$T/$odd"

# A set file and a catalog are sets, too.
printf '{"sources":[{"uri":"file://%s/class-000","at":"a/"},{"uri":"file://%s/class-001","at":"b/"}]}' "$SRC" "$SRC" >"$T/set.json"
sampan scan "$T/set.json" --cache "ssd:$T/cache-set=1GiB" -o "$T/catalog" --quiet >"$T/out"
for set in "$T/set.json" "$T/catalog"; do
    sampan warmup "$set" b a/000000.bin --cache "ssd:$T/cache-$(basename "$set").d=1GiB" --json --quiet >"$T/out"
    expect "samples of $set" "$(field samples <"$T/out")" 4
    expect "objects of $set" "$(sampan bench fetch "$set" --json --quiet | field objects)" 6
done
refused 2 "it is a catalog" sampan sync "$T/catalog" "file://$T/copy"
refused 3 "$T/beside: no mount" sampan warmup "$T/beside"
