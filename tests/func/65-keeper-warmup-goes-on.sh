#!/usr/bin/env bash
# A warmup outlives the daemon: one in the background is taken up by the next life, one in front is asked for again.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 4 --files 50
start_nginx
on_exit "unmount_quietly '$MNT'"
bytes=$(du -sb "$SRC" | cut -f1)
slow=$((bytes / 300)) # it ends when it is told to hurry
mount_set "$HTTP_URL/" --bandwidth $slow
sampan warmup "$MNT" --background
some() { [ "$(status cache.samples)" -ge "$1" ]; }
until_true 40 some 3
kill_life
expect "it goes on" "$(status warmup.state)" running
sampan set "$MNT" bandwidth=1GB
all() { [ "$(status warmup.state)" = done ]; }
until_true 40 all || fail "warmup: $(status warmup)"
expect "samples" "$(status cache.samples)" "$(status set.samples)"
sampan clear "$MNT"
sampan set "$MNT" bandwidth=$slow
kill_life
expect "done: not begun again" "$(status warmup.state)" idle
sampan warmup "$MNT" --quiet --json >"$T/warmup" &
warmup=$!
until_true 40 some 3
kill_life
sampan set "$MNT" bandwidth=1GB
wait $warmup || fail "the warmup in front failed"
expect "failed" "$(field failed <"$T/warmup")" 0
expect "samples" "$(status cache.samples)" "$(status set.samples)"
unmount
nothing_left
