#!/usr/bin/env bash
# upgrade also puts the new program's keeper in the old one's place, under readers; one that fails leaves all as it was.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
keeper_is() { # PID PROGRAM
    grep -q "^sampan-keeper" "/proc/$1/comm" && expect "the keeper's program" "$(readlink "/proc/$1/exe")" "$2"
}
pair() { # FOLDER: a sampan and its keeper
    mkdir "$1"
    cp "$S" "$(dirname "$(readlink -f "$S")")/sampan-keeper" "$1"
}

make_set --classes 2 --files 20
export SAMPAN_KEEPER_HANG_MS=15000 # for so long one of which nothing is heard is waited for
mount_set "file://$SRC"
start_readers
first=$(keeper)
pair "$T/new"
sampan upgrade "$MNT" --program "$T/new/sampan" --json >"$T/upgrade"
cat "$T/upgrade"
second=$(keeper)
expect "keeper told" "$(field keeper_pid <"$T/upgrade")" "$second"
[ "$second" != "$first" ] || fail "the old keeper is still the one"
until_true 10 test ! -e "/proc/$first" || fail "the old keeper is still there"
expect "keepers" "$(keepers | wc -l)$(S=$T/new/sampan keepers | wc -l)" 01
keeper_is "$second" "$T/new/sampan-keeper"

# It keeps: what serves dies, then it dies itself.
kill_life
expect "keeper" "$(keeper)" "$second"
kill -9 "$second"
renewed() { [ "$(keeper)" != "$second" ] && [ "$(keeper)" != 0 ]; }
until_true 20 renewed || fail "no new keeper"
kill_life
third=$(keeper)

# One that ends at once, and one of which nothing is heard: upgrade says so, and nothing else happened.
serves=$(life)
pair "$T/bad"
cp "$(readlink -f /bin/false)" "$T/bad/sampan-keeper"
refused 1 "sampan-keeper did not take over: it ended" sampan upgrade "$MNT" --program "$T/bad/sampan"
printf '#!/bin/sh\nexec sleep 300\n' >"$T/bad/sampan-keeper"
refused 1 "sampan-keeper did not take over within" sampan upgrade "$MNT" --program "$T/bad/sampan"
printf 'no program' >"$T/bad/sampan-keeper"
refused 1 "start the keeper: .*sampan-keeper" sampan upgrade "$MNT" --program "$T/bad/sampan"
expect "who serves" "$(life)" "$serves"
expect "who keeps" "$(keeper)" "$third"

# Back and forth, while what serves is killed again and again.
pair "$T/other"
for i in 1 2 3 4; do
    where=$([ $((i % 2)) = 0 ] && echo "$T/new" || echo "$T/other")
    until_true 30 sampan upgrade "$MNT" --program "$where/sampan" >>"$T/upgrades" 2>&1 &
    upgrading=$!
    sleep "0.0$i"
    kill -9 "$(life)" || true # it may have ended by itself just now
    wait "$upgrading" || fail "no upgrade to $where: $(tail -1 "$T/upgrades")"
done
keeper_is "$(keeper)" "$T/new/sampan-keeper"
readers_ok
S=$T/new/sampan unmount
expect "keepers left" "$(S=$T/new/sampan keepers)$(S=$T/other/sampan keepers)" ""
nothing_left
