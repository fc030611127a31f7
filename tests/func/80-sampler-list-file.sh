#!/usr/bin/env bash
# A list file of the set, as frameworks' list data sets have them, numbers the samples: they are fetched in its order.
# What it does not name is served, but is none of the order. A list that names what is not there is refused.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 3 --files 8 --size 20000
mkdir "$SRC/lists"
(cd "$SRC" && find class-000 class-002 -name '*.bin' | sort -r | head -12 | sed 's/^class-//; s/$/ 7/') >"$T/train"
sed 's/^/.\/class-/' "$T/train" >"$SRC/lists/train.txt"
printf '\n\nclass-001/000001.bin 1\nclass-001/nowhere.bin 1\n' >"$SRC/lists/wrong.txt"
start_nginx
spec="sequence,list=lists/train.txt"
mount_set "$HTTP_URL/" --sampler "$spec" --connections 1 --no-hedge
all_here() { [ "$(status cache.samples)" -ge 12 ]; }
until_true 30 all_here || fail "only $(status cache.samples) of 12 were fetched ahead: $(status ahead)"
fetched() { sed -n 's/^GET \/\(class[^ ]*bin\) .*/\1/p' "$T/log/nginx.access"; }
expect "fetched in the list's order, and nothing else" "$(fetched)" "$(sed 's/^/class-/; s/ 7$//' "$T/train")"
expect "samples in the order" "$(sampan plan "$MNT" --sampler "$spec" --print order | wc -l)" 12
same_bytes "$SRC" "$MNT"
# Read through the mount that it is for, it would be waited for by the next life before that serves.
refused 2 "in this mount itself" sampan set "$MNT" "sampler=sequence,list=$MNT/lists/train.txt"
unmount

try() { sampan mount "$HTTP_URL/" "$MNT" --cache "ssd:$T/other=1GiB" --sampler "$1"; }
refused 2 "wrong.txt line 4: .*nowhere.bin" try "sequence,list=lists/wrong.txt"
mkfifo "$T/pipe"
refused 2 "not a regular file" try "sequence,list=$T/pipe"
refused 3 "lists/none.txt" try "sequence,list=lists/none.txt"
# In the caller's folder, which is not the daemon's: a later scan would not find it.
mkdir "$T/lists"
cp "$SRC/lists/train.txt" "$T/lists/own.txt"
(cd "$T" && refused 3 "own.txt.*begins with /.*404" try "sequence,list=lists/own.txt")
nothing_left
# root= says below what the list's paths lie.
mkdir "$SRC/deep"
mv "$SRC"/class-00? "$SRC/deep/"
sed 's/^/class-/' "$T/train" >"$SRC/lists/below.txt"
try "sequence,list=lists/below.txt,root=deep"
expect "samples below a root" "$(sampan plan "$MNT" --sampler "sequence,list=lists/below.txt,root=deep" --print order | wc -l)" 12
unmount
