#!/usr/bin/env bash
# The folder of one tier is removed while it is mounted: nothing more is put there, which would be lost; every byte is right,
# status and doctor say what is wrong, and the next mount has the tier again.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 30 --size 100000..300000
mount_two() {
    mount_set "file://$SRC" --cache "ssd:$CACHE=3MiB" --cache "hdd:$T/second=1GiB"
}
mount_two
find "$MNT" -type f | head -n 40 | xargs cat >/dev/null
state_is() { [ "$(status cache.tiers.1.state)" = "$1" ]; }
state_is ok || fail "state: $(status cache.tiers.1.state)"
rm -rf "$T/second"
until_true 20 state_is failed || fail "state: $(status cache.tiers.1.state)" # nobody need write there
expect "why" "$(status cache.tiers.1.why)" "its folder was removed (unmount, and mount again)"
expect "state" "$(status state)" degraded
used=$(status cache.tiers.1.used)
mkdir "$T/second" # it is another one
for _ in 1 2 3; do
    drop_pages
    same_tree "$SRC" "$MNT"
done
state_is failed || fail "state: $(status cache.tiers.1.state)"
expect "errors" "$(status reads.errors)" 0
at_most "used" "$(status cache.tiers.1.used)" "$used"
sampan doctor "$MNT" >"$T/doctor" || true
grep -q "^wrong .*cache tier set aside.*: $T/second: its folder was removed" "$T/doctor" || fail "doctor: $(cat "$T/doctor")"
unmount

mount_two
warm_all
state_is ok || fail "state: $(status cache.tiers.1.state)"
drop_pages
same_tree "$SRC" "$MNT"
expect "corrupt" "$(status reads.corrupt_repaired)" 0
unmount
nothing_left
