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
expect "brought by what was refused" "$(status cache.samples)" 0
unmount
