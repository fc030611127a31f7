#!/usr/bin/env bash
# Another tier is the first: its folder has no catalog, or another one, and what is cached by the old one's ids is dropped,
# which is said. With the first one in its place, the others may come and go.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 20 --size 100000..200000
a=ssd:$T/a=2MiB b=hdd:$T/b=2MiB c=hdd:$T/c=100MiB
all_cached() { [ "$(status cache.samples)" = 40 ]; }
dropped() { grep -q "was cached by another catalog than that in $1: it is dropped" "$T/log/log"; }
mount_in_order() { # TIERS…
    local tiers=() tier
    for tier in "$@"; do tiers+=(--cache "$tier"); done
    rm -f "$T/log/log"
    mount_set "file://$SRC" "${tiers[@]}" --log "$T/log/log"
    same_tree "$SRC" "$MNT"
    until_true 10 all_cached || fail "only $(status cache.samples) samples are cached"
    expect "errors" "$(status reads.errors)" 0
    expect "corrupt" "$(status reads.corrupt_repaired)" 0
    unmount
}
mount_in_order "$a" "$b" "$c"
for tiers in "$a $c $b" "$a $c" "$a $c $b"; do
    # shellcheck disable=SC2086 # words
    mount_in_order $tiers
    ! dropped "$T/a" || fail "$tiers: $(cat "$T/log/log")"
done
mount_in_order "$c" "$b" "$a"
dropped "$T/c" || fail "it is not said: $(cat "$T/log/log")"
mount_in_order "$a" "$b" "$c"
dropped "$T/a" || fail "it is not said: $(cat "$T/log/log")"
nothing_left
