# Several runtime servers on loopback, for tests; serve.sh is sourced before this one.
#
#   cluster P [OPTIONS…]     starts P servers; each speaks for the mount $T/mnt-K where there is one
#   start_member K           starts (again) server K, on $LISTEN_PORT or another; the others find it
#                            through the list, a file
#   stop_member K [SIGNAL]
#   at K CMD…                CMD asks server K
#   see_states K STATES      server K finds the members in these states: "ok ok lost"

PEERS=$T/peers
PARTITIONS=
cluster_options=()
member_pids=()
member_ports=()

write_peers() {
    local k
    for ((k = 0; k < PARTITIONS; k++)); do
        # an address that nobody has, until a server has its own
        echo "$SCHEME://127.0.0.1:${member_ports[k]:-1}"
    done >"$PEERS.new"
    mv "$PEERS.new" "$PEERS"
}

start_member() { # K
    local k=$1 log=$T/log/serve-$1 mount=()
    [ ! -d "$T/mnt-$k" ] || mount=(--mount "$T/mnt-$k")
    : >"$log"
    "$S" serve --listen "127.0.0.1:${LISTEN_PORT:-0}" --state "$T/serve-$k" --token-file "$T/token" --ordinal "$k" \
        --partitions "$PARTITIONS" --peers "$PEERS" "${mount[@]}" "${cluster_options[@]}" >>"$log" 2>&1 &
    member_pids[k]=$!
    on_exit "stop_member $k KILL"
    until_true 20 grep -q 'sampan serve: listening on port' "$log" || fail "server $k does not start: $(cat "$log")"
    member_ports[k]=$(sed -n 's/.*sampan serve: listening on port \([0-9]*\).*/\1/p' "$log" | tail -n 1)
    write_peers
}

stop_member() { # K [SIGNAL]
    [ -n "${member_pids[$1]:-}" ] || return 0
    kill -"${2:-TERM}" "${member_pids[$1]}" 2>/dev/null || true
    wait "${member_pids[$1]}" 2>/dev/null || true
    member_pids[$1]=
}

at() { # K CMD…
    PORT=${member_ports[$1]}
    shift
    "$@"
}

states_are() { # K STATES
    at "$1" ask GET /v1/members
    [ "$("$PYTHON" -c '
import json, sys
print(*(m["state"] for m in json.load(open(sys.argv[1]))["members"]))' "$T/answer")" = "$2" ]
}

see_states() { # K STATES
    until_true 30 states_are "$1" "$2" || fail "server $1 sees $(cat "$T/answer"), want $2"
}

cluster() { # P [OPTIONS…]
    local k all
    PARTITIONS=$1
    shift
    cluster_options=("$@")
    write_peers
    all=$(printf 'ok %.0s' $(seq "$PARTITIONS"))
    for ((k = 0; k < PARTITIONS; k++)); do start_member "$k"; done
    for ((k = 0; k < PARTITIONS; k++)); do see_states "$k" "${all% }"; done
}

stop_cluster() {
    local k
    for ((k = 0; k < PARTITIONS; k++)); do stop_member "$k"; done
}

# --- with a set: every server speaks for a mount of its own ------------------------------------------

mount_all() { # P SET [OPTIONS…]
    local k partitions=$1 set=$2
    shift 2
    on_exit unmount_all_quietly
    for ((k = 0; k < partitions; k++)); do
        mkdir -p "$T/mnt-$k" "$T/cache-$k"
        sampan mount "$set" "$T/mnt-$k" --cache "ssd:$T/cache-$k=1GiB" "$@"
    done
}

unmount_all() {
    local m
    for m in "$T"/mnt-*; do
        ! is_mounted "$m" || sampan umount "$m"
    done
    until_true 20 no_daemon || fail "a daemon outlives its mount"
}

unmount_all_quietly() {
    local m
    for m in "$T"/mnt-*; do
        ! is_mounted "$m" || sampan umount "$m" || sampan umount --lazy "$m" || umount -l "$m"
    done
}

mount_status() { # K FIELD
    sampan status "$T/mnt-$1" --json | field "$2"
}
