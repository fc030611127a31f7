#!/usr/bin/env bash
# Started with standard input, output and error closed, programs write nothing of what they would print into the files that
# they open: the trainer's curves and checkpoints are those of any other run. Lines of --json that cannot be written are told.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
options=(--device cpu --model mlp --image 8 --data synthetic:64,4 --batch_size 16 --num_passes 3 --log_period 1 --json)
"$TRAIN" "${options[@]}" --save_dir "$T/open" --log_dir "$T/curves-open" >"$T/lines" 2>"$T/why" || fail "$(cat "$T/why")"
"$TRAIN" "${options[@]}" --save_dir "$T/closed" --log_dir "$T/curves-closed" <&- >&- 2>&- || fail "it ends with $?"
diff -r "$T/open" "$T/closed" || fail "other checkpoints"
expect "lines of curves" "$(wc -l <"$T/curves-closed/train.jsonl")" 12
! grep -v '^{"time":' "$T/curves-closed/train.jsonl" || fail "that is no curve"

"$TRAIN" "${options[@]}" >/dev/full 2>"$T/full.log" || fail "$(cat "$T/full.log")"
expect "lines that say so" "$(grep -c "warn train: standard output: No space left on device: no more lines are written there" "$T/full.log")" 1
grep -q "done: step=12" "$T/full.log" || fail "$(cat "$T/full.log")"

# A mount that stays in the foreground, and all that it starts.
make_set --classes 2 --files 4
SAMPAN_TIMEOUT=600 sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --foreground <&- >&- 2>&- &
on_exit "unmount_quietly '$MNT'"
until_true 30 is_mounted "$MNT" || fail "it is not mounted"
same_tree "$SRC" "$MNT"
for pid in $(daemons); do
    for fd in 0 1 2; do
        expect "descriptor $fd of $(tr '\0' ' ' <"/proc/$pid/cmdline")" "$(readlink "/proc/$pid/fd/$fd")" /dev/null
    done
done
[ -n "$(daemons)" ] || fail "no daemon"
unmount
