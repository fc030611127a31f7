#!/usr/bin/env bash
# Two parameter servers with rows on ports of their own and two trainers learn what one process does; a server that is
# killed is named, who sends garbage is refused, and training goes on from the last checkpoint, to the bits of a job that nothing stopped.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/pservers.sh"
make_ratings "$SRC"

"$TRAIN" --model movie --data "$SRC" --batch_size 30 --num_passes 4 --save_dir "$T/one" 2>"$T/one.log"
job --num_passes 4 --save_dir "$T/two" --json
all_ended 0 0
agree "$T/one/pass-00003" "$T/two/pass-00003" || fail "they do not agree"
grep -q '"event":"summary","epoch":3,"step":80,' "$T/trainer0.json" || fail "$(cat "$T/trainer0.json")"

# Where a server is to be, somebody else may listen before and hang up (launch does): nobody takes that for a death.
"$PYTHON" - "$net.2" <<'PY' &
import socket, sys
with socket.create_server((sys.argv[1], 7164)) as listener:
    for _ in range(2):
        s = listener.accept()[0]
        s.recv(1)
        s.close()
PY
before=$!
server 1
for i in 0 1; do
    trainer $i --num_passes 1
done
wait $before || fail "nobody came: $(logs)"
server 2
all_ended 0 0

job --num_passes 100000 --save_dir "$T/long" --keep 2
saved() {
    [ -e "$T/long/pass-00000/done" ] || [ -e "$T/long/pass-00001/done" ] || ls "$T"/long/pass-0000?/done
} >/dev/null 2>&1
until_true 60 saved || fail "no checkpoint: $(logs)"
"$PYTHON" - "$net.1" <<'PY' || fail "who sends garbage is not refused"
import socket, sys
for text in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"SPS1" + b"\xff" * 60, b"SPS1\x03\0\0\0" + b"\0" * 8):
    s = socket.create_connection((sys.argv[1], 7164), timeout=300)
    s.sendall(text)
    answer = b""
    try:
        while part := s.recv(65536):
            answer += part
    except ConnectionResetError:
        pass
    assert b"protocol" in answer or b"greeting" in answer or not answer, answer
PY
grep -q "is refused: what it sends is not of this protocol" "$T/pserver1.log" || fail "nobody says so: $(logs)"
kill -9 "${servers[2]}"
ended "the other server" 1 "${servers[1]}"
ended "trainer 0" 1 "${trainers[0]}"
ended "trainer 1" 1 "${trainers[1]}"
# Trainer 0 alone asks servers for what it saves; if that is when one dies, trainer 1 hears of no more than a save that failed.
grep -q "^sampan-train: .*pserver $net.2:716[45] has died" "$T/trainer0.log" || fail "who died is not said: $(logs)"
grep -Eq "^sampan-train: (pserver $net.2:716[45] has died|rank 0 could not write)" "$T/trainer1.log" || fail "$(logs)"

job --num_passes 100000 --save_dir "$T/long" --keep 2
went_on() {
    grep -q "done: Batch" "$T/trainer0.log"
}
until_true 60 went_on || fail "it does not go on: $(logs)"
kill -TERM "${trainers[1]}"
all_ended 0 143
grep -q "going on from $T/long/pass-" "$T/trainer1.log" || fail "it began anew: $(logs)"

newest() {
    ls -d "$T"/"$1"/pass-*/done | tail -n 1 | sed 's,/done$,,'
}
end=$(($("$PYTHON" -c 'import json, sys; print(json.load(open(sys.argv[1]))["step"])' "$(newest long)/state.json") + 15))
for folder in long never-stopped; do
    job --num_passes 100000 --max_steps $end --saving_period 0 --save_dir "$T/$folder"
    all_ended 0 0
done
grep -q "done: step=$end " "$T/trainer0.log" || fail "$(logs)"
expect "the same place" "$(basename "$(newest long)")" "$(basename "$(newest never-stopped)")"
diff -r "$(newest long)" "$(newest never-stopped)" || fail "not the bits of a job that was never stopped"
