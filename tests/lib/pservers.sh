# Sourced by tests of parameter servers: two of them, with rows on ports of their own, and two trainers of the recommender.
. "$SAMPAN_TESTS/lib/ratings.sh"
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
net=127.$((1 + $$ % 250)).$((1 + $$ / 250 % 250)) # addresses of this test alone
ports=(--port 7164 --ports_num 1 --ports_num_for_sparse 1 --comment "job $$")

trainer() { # I OPTIONS…
    local i=$1
    shift
    : >"$T/trainer$i.log" # what is looked for in it is not that of one before
    "$TRAIN" --model movie --data "$SRC" --batch_size 15 --trainer_id "$i" --num_gradient_servers 2 --local=0 \
        --pservers "$net.1,$net.2" "${ports[@]}" --rendezvous_timeout 600s "$@" >"$T/trainer$i.json" 2>"$T/trainer$i.log" &
    trainers[i]=$!
    on_exit "kill -9 $!"
}
server() { # I OPTIONS…
    : >"$T/pserver$1.log"
    "$TRAIN" pserver --address "$net.$1" "${ports[@]}" --num_gradient_servers 2 --rendezvous_timeout 600s "${@:2}" >"$T/pserver$1.log" 2>&1 &
    servers[$1]=$!
    on_exit "kill -9 $!"
}
job() { # OPTIONS… : servers and trainers
    local i
    for i in 1 2; do
        server $i
    done
    for i in 0 1; do
        trainer $i "$@"
    done
}
logs() {
    tail -n 3 "$T"/pserver?.log "$T"/trainer?.log
}
ended() { # WHAT CODE PID
    local code=0
    wait "$3" || code=$?
    [ "$code" = "$2" ] || fail "$1: exit code $code, want $2: $(logs)"
}
all_ended() { # CODE OF SERVERS, OF TRAINERS
    ended "server 1" "$1" "${servers[1]}"
    ended "server 2" "$1" "${servers[2]}"
    ended "trainer 0" "$2" "${trainers[0]}"
    ended "trainer 1" "$2" "${trainers[1]}"
}
agree() { # FOLDER FOLDER : every number within 1e-5
    "$PYTHON" - "$1" "$2" <<'PY'
import array, os, sys
a, b = sys.argv[1:]
names = sorted(n for n in os.listdir(a) if n.startswith("_") or n == "momentum")
assert len(names) > 20 and names == sorted(n for n in os.listdir(b) if n.startswith("_") or n == "momentum"), names
for name in names:
    x, y = (array.array("f", open(f"{d}/{name}", "rb").read()[0 if name == "momentum" else 16:]) for d in (a, b))
    worst = max(abs(p - q) for p, q in zip(x, y))
    assert len(x) == len(y) and worst < 1e-5, (name, len(x), len(y), worst)
PY
}
