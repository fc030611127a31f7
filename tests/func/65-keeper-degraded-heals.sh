#!/usr/bin/env bash
# A degraded mount is tried again: as long as what it lacks is missing it stays as it is, then it heals by itself.
export SAMPAN_KEEPER_TRIAL_MS=500
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 1 --files 5
mount_set "file://$SRC"
mv "$SRC" "$T/src-away"
mv "$CACHE/catalog" "$T/catalog-away"
kill -9 "$(life)"
degraded() { [ "$(status state)" = degraded ]; }
until_true 30 degraded || fail "not degraded: $(status state)"
since=$(status since)
lives=$(status restarts)
tried_twice() { [ "$(status restarts)" -ge $((lives + 4)) ]; } # each is a true life, and one more that refuses
until_true 60 tried_twice || fail "not tried: $(status restarts) restarts, $lives when it became degraded"
until_true 30 degraded || fail "not degraded after trials: $(status state)"
expect "since" "$(status since)" "$since"
mv "$T/src-away" "$SRC"
mv "$T/catalog-away" "$CACHE/catalog"
healed() { [ "$(status state)" = ready ]; }
until_true 60 healed || fail "not healed: $(status state): $(status why)"
same_bytes "$SRC" "$MNT"
unmount
nothing_left
