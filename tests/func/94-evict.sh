#!/usr/bin/env bash
# evict by size and by age; with --store old samples leave the source, after a dry run and --yes alone.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 10 --size 40000
mount_set "file://$SRC"
sampan warmup "$MNT" --json >"$T/warm"
expect "all of it is here" "$(status cache.samples)" 20
sampan evict "$MNT" --unused-for 1h --json >"$T/unused"
expect "what was just fetched was used" "$(field samples <"$T/unused")" 0
sampan evict "$MNT" --older-than 1s --json >"$T/older"
expect "by age" "$(field samples <"$T/older") $(status cache.samples)" "20 0"
refused 2 "want one of" sampan evict "$MNT"
refused 2 "want one of" sampan evict "$MNT" --to 1MB --unused-for 1h
refused 2 "older-than: at least 1s" sampan evict "$MNT" --older-than 0s
refused 2 "goes with --store" sampan evict "$MNT" --to 1MB --yes
refused 2 "knows only its own reads" sampan evict "$MNT" --unused-for 1h --store

# Three samples are younger than a day.
for i in 0 1 2; do touch "$SRC/class-000/00000$i.bin"; done
ls -R "$SRC" >"$T/before"
sampan evict "$MNT" --older-than 1d --store >"$T/dry"
grep -q "would remove 17 samples" "$T/dry" || fail "a dry run says what would go: $(cat "$T/dry")"
sampan evict "$MNT" --older-than 1d --store --json >"$T/dry.json"
expect "dry, as JSON" "$(field dry <"$T/dry.json") $(field samples <"$T/dry.json") $(field removed <"$T/dry.json")" "true 17 0"
ls -R "$SRC" | cmp - "$T/before" || fail "a dry run removed something"
# To a size: the oldest ten of twenty, into the trash.
sampan evict "$MNT" --to 400000 --store --yes --json >"$T/sized"
expect "the oldest" "$(field removed <"$T/sized") $(field failed <"$T/sized")" "10 0"
expect "the mount shows the new version" "$(find "$MNT" -type f | wc -l)" 10
expect "they lie in the trash" "$(find "$SRC/.trash" -type f | wc -l)" 10
for i in 0 1 2; do [ -f "$SRC/class-000/00000$i.bin" ] || fail "a young one went"; done
oldest=$(find "$SRC/.trash" -type f -printf '%T@\n' | sort -n | tail -1)
youngest=$(find "$SRC" -path "$SRC/.trash" -prune -o -type f -printf '%T@\n' | sort -n | head -1)
awk -v a="$oldest" -v b="$youngest" 'BEGIN { exit !(a <= b) }' || fail "a younger one went before an older one"
sampan evict "$MNT" --older-than 1d --store --yes --skip-trash >"$T/gone"
grep -q "7 of 7 samples" "$T/gone" || fail "by age: $(cat "$T/gone")"
expect "for good" "$(find "$SRC/.trash" -type f | wc -l) $(find "$MNT" -type f | wc -l)" "10 3"
same_bytes "$SRC/class-000" "$MNT/class-000"
# What lies behind a link of the source is none of its to remove.
mkdir "$T/outside"
echo 1 >"$T/outside/sample"
ln -s "$T/outside" "$SRC/linked"
for trash in "" --skip-trash; do
    sampan evict "$MNT" --to 0 --store --yes $trash 2>"$T/err" && fail "all is said to be gone"
    grep -q "linked/sample.*behind a link, which is not followed" "$T/err" || fail "$(cat "$T/err")"
done
[ -e "$T/outside/sample" ] || fail "what a link leads to is gone"
unmount
