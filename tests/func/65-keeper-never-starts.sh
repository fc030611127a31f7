#!/usr/bin/env bash
# A keeper that ends as soon as it is started is tried five times, with pauses that grow: then the daemon says that it has
# none, and goes on without.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 1 --files 5
export SAMPAN_KEEPER="$T/keeper"
cp "$SAMPAN_BUILD/bin/sampan-keeper" "$SAMPAN_KEEPER"
mount_set "file://$SRC" --log "$T/daemon.log"
daemon=$(life)
old=$(keeper)
printf '#!/bin/sh\necho >>"%s"\n' "$T/starts" >"$T/ends-at-once"
chmod +x "$T/ends-at-once"
mv "$T/ends-at-once" "$SAMPAN_KEEPER"
kill -9 "$old"
given_up() { grep -q "no keeper any more: .*ends as soon as it is started" "$T/daemon.log"; }
until_true 30 given_up || fail "started $(wc -l <"$T/starts") times so far: $(tail -3 "$T/daemon.log")"
expect "times it was started" "$(wc -l <"$T/starts")" 5
expect "the daemon goes on" "$(life)" "$daemon"
expect "keeper" "$(keeper)" 0
same_bytes "$SRC" "$MNT"
unmount
nothing_left
