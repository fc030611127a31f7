#!/usr/bin/env bash
# A trainer that stands still in the middle of a push: nothing of that step is counted anywhere. Synchronous trainers wait for it, and
# learn the same bits when it goes on; where it does not, it is named, all end, and the job goes on later to those bits. Asynchronous
# ones do not wait, and half a push is none.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/pservers.sh"
make_ratings "$SRC" # 20 steps a pass
options=(--num_passes 3 --log_period 1 --json)
frozen_job() { # PUSH half|none OPTIONS… : trainer 1 stands still when it has sent so much of its push of this number
    local server
    rm -f "$T/held" "$T/go" "$T"/relay-*
    relays=()
    for server in 1 2; do
        "$PYTHON" "$SAMPAN_TESTS/servers/push-relay.py" "$1" "$2" "$T" "$net.$((server + 2))" "$net.$server" 7164 7165 &
        relays+=($!)
        on_exit "kill -9 $!"
    done
    shift 2
    until_true 60 test -e "$T/relay-$net.3" -a -e "$T/relay-$net.4" || fail "the relays do not come up"
    server 1
    server 2
    trainer 0 "${options[@]}" "$@"
    trainer 1 "${options[@]}" "$@" --pservers "$net.3,$net.4"
    until_true 60 test -e "$T/held" || fail "it does not come to that push: $(logs)"
    kill -STOP "${trainers[1]}"
}
no_relays() {
    kill "${relays[@]}"
    wait "${relays[@]}" 2>/dev/null || true
}
steps() { # of trainer 0
    grep -c '"event":"step"' "$T/trainer0.json" || true
}
has_made() { # STEPS
    [ "$(steps)" -ge "$1" ]
}

job "${options[@]}" --save_dir "$T/whole"
all_ended 0 0

# It goes on: so do all.
frozen_job 25 half --save_dir "$T/late"
until_true 60 has_made 24 || fail "$(logs)"
sleep 1 # in which a step that did not wait would be made
expect "steps of trainer 0 while the other stands still" "$(steps)" 24
touch "$T/go"
kill -CONT "${trainers[1]}"
all_ended 0 0
no_relays
diff -r "$T/whole/pass-00002" "$T/late/pass-00002" || fail "not the bits of a job in which nobody stood still"

# It does not: who it was is said, by the server that waited and by the other trainer.
frozen_job 25 half --save_dir "$T/never" --collective_timeout 10s
ended "trainer 0" 1 "${trainers[0]}"
named="of 2 trainers these stand still, or are cut off: 1 (start again"
grep -q "^sampan-train: pserver $net.1:7164: $named" "$T/trainer0.log" || fail "who is not said: $(logs)"
for i in 1 2; do
    ended "server $i" 1 "${servers[i]}"
done
grep -q "^sampan-train: $named" "$T/pserver1.log" || fail "who is not said: $(logs)"
touch "$T/go"
kill -CONT "${trainers[1]}"
ended "trainer 1" 1 "${trainers[1]}"
no_relays
expect "steps of trainer 0" "$(steps)" 24
job "${options[@]}" --save_dir "$T/never"
all_ended 0 0
grep -q "going on from $T/never/pass-00000: " "$T/trainer1.log" || fail "it began anew: $(logs)"
diff -r "$T/whole/pass-00002" "$T/never/pass-00002" || fail "not the bits of a job in which nobody stood still"

# --async: trainer 0 makes all its steps, and ends without the other. Half of its first push or nothing of it are the same bits (also
# of rows that it pulled); all of it would be seen.
goes_on_without() { # PUSH half|none FOLDER
    frozen_job "$1" "$2" --async --save_dir "$T/$3"
    until_true 60 grep -q "Pass=2 done:" "$T/trainer0.log" || fail "it waits for one that stands still: $(logs)"
    kill -9 "${trainers[1]}"
    no_relays
    ended "trainer 1" 137 "${trainers[1]}"
    ended "trainer 0" 0 "${trainers[0]}"
    for i in 1 2; do
        ended "server $i" 0 "${servers[i]}"
    done
}
goes_on_without 1 half half
goes_on_without 1 none none
goes_on_without 2 none one
diff -r "$T/half/pass-00002" "$T/none/pass-00002" || fail "half a push was counted"
! agree "$T/one/pass-00002" "$T/none/pass-00002" 2>"$T/apart" || fail "a whole push was not counted"
grep -q "^AssertionError: ('_" "$T/apart" || fail "$(cat "$T/apart")"
