# Several nodes on one machine, for tests: each a mount with a cache of its own and a runtime server.
#
#   peer_nodes N SET [MOUNT OPTIONS…]  nodes 0 … N-1: mounted at $T/m$i (cache $T/c$i, partition i/N), served
#                                      at ${URL[i]}, each knowing the others; their token is in $T/token
#   peer_of I J FIELD                  what node I's status says of node J
#   from_peers I [FIELD]               the sum of that over all of node I's peers
#   all_peers_ok N                     every node finds every other well
#   unpeer                             ends all of them

TOKEN=0123456789abcdef-secret
echo "$TOKEN" >"$T/token"
export SAMPAN_PEER_PATIENCE_MS=120000 # what waits for a processor is not silent
URL=()
SERVE_PID=()
N_NODES=0

peer_serve() { # I [PORT] : the server of node I's mount
    local i=$1 log=$T/log/serve$1
    : >"$log"
    "$S" serve --listen "127.0.0.1:${2:-0}" --state "$T/serve$i" --token-file "$T/token" --mount "$T/m$i" \
        >>"$log" 2>&1 &
    SERVE_PID[i]=$!
    on_exit "kill -9 $!"
    until_true 20 grep -q 'sampan serve: listening on port' "$log" || fail "server $i does not start: $(cat "$log")"
    URL[i]=http://127.0.0.1:$(sed -n 's/.*listening on port \([0-9]*\).*/\1/p' "$log" | tail -n 1)
}

peer_stop() { # I [SIGNAL]
    kill -"${2:-TERM}" "${SERVE_PID[$1]}" 2>/dev/null || true
    wait "${SERVE_PID[$1]}" 2>/dev/null || true
}

peer_nodes() { # N SET [OPTIONS…]; PEER_CACHE: the size of each one's cache
    local n=$1 set=$2 i list
    shift 2
    N_NODES=$n
    for ((i = 0; i < n; i++)); do
        mkdir -p "$T/m$i"
        on_exit "sampan umount '$T/m$i' || umount -l '$T/m$i'"
        sampan mount "$set" "$T/m$i" --cache "ssd:$T/c$i=${PEER_CACHE:-1GiB}" --partition "$i/$n" --peer-token-file "$T/token" \
            --prefetch 1 "$@"
        peer_serve "$i"
    done
    list=$(IFS=,; echo "${URL[*]}")
    for ((i = 0; i < n; i++)); do sampan set "$T/m$i" "peers=$list"; done
}

peer_of() { # I J FIELD
    sampan status "$T/m$1" --json | "$PYTHON" -c '
import json, sys
for p in json.load(sys.stdin)["peers"]:
    if p["partition"] == int(sys.argv[1]):
        print(p[sys.argv[2]])' "$2" "$3"
}

peer_is() { # I J STATE
    [ "$(peer_of "$1" "$2" state)" = "$3" ]
}

all_peers_ok() { # N
    local i j
    for ((i = 0; i < $1; i++)); do
        for ((j = 0; j < $1; j++)); do
            [ "$i" = "$j" ] || until_true 20 peer_is "$i" "$j" ok || fail "node $i finds node $j $(peer_of "$i" "$j" state)"
        done
    done
}

from_peers() { # I [FIELD] : the sum over all peers
    sampan status "$T/m$1" --json | "$PYTHON" -c '
import json, sys
print(sum(p[sys.argv[1]] for p in json.load(sys.stdin)["peers"]))' "${2:-samples}"
}

reads() { # I SOURCE
    sampan status "$T/m$1" --json | field "reads.$2"
}

unpeer() {
    local i
    for ((i = 0; i < N_NODES; i++)); do
        peer_stop "$i"
        sampan umount "$T/m$i"
    done
}
