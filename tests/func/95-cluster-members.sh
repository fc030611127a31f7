#!/usr/bin/env bash
# The servers of a cluster find one another, notice who is lost and who is back, wherever its address is.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
. "$SAMPAN_TESTS/lib/cluster.sh"
serve() { sampan serve --state "$T/none" --token-file "$T/token" --listen 127.0.0.1:0 "$@"; }
refused 2 "want http://HOST:PORT" serve --partitions 2 --peers "http://a/b"
refused 2 "want http://HOST:PORT" serve --partitions 2 --peers "http://u:p@a:1,http://b:1"
refused 2 "no server is named" serve --partitions 2 --peers /dev/null
refused 3 "$T/nowhere" serve --partitions 2 --peers "$T/nowhere"
refused 2 "--ordinal 2" serve --partitions 2 --ordinal 2
[ ! -e "$T/none" ] || fail "something was made although all was refused"

cluster 3
at 1 expect_code 200 GET /v1/members
expect "partitions" "$(answer partitions)" 3
expect "url of 2" "$(answer members.2.url)" "http://127.0.0.1:${member_ports[2]}"
expect "url of 1 itself" "$(answer members.1.url)" "http://127.0.0.1:${member_ports[1]}"
expect "partition" "$(answer members.2.partition)" 2/3
at 1 expect_code 200 GET /v1/identity
expect "ordinal" "$(answer ordinal)" 1
BEARER= at 1 expect_code 401 GET /v1/members
# What cannot be read is refused by whichever server it comes to, and ends none.
for k in 0 1 2; do at $k expect_code 400 POST /v1/jobs -d '{'; done

stop_member 2 KILL
see_states 0 "ok ok lost"
case $(answer members.2.why) in *connect*) ;; *) fail "why: $(cat "$T/answer")" ;; esac
start_member 2 # on another port
see_states 0 "ok ok ok"
see_states 1 "ok ok ok"
expect "url of 2" "$(answer members.2.url)" "http://127.0.0.1:${member_ports[2]}"

# the order of a list misleads nobody; a stranger and a server of another cluster are no members
printf '# list\n%s\n\n%s # first\n%s\n' "http://127.0.0.1:${member_ports[2]}" \
    "http://127.0.0.1:${member_ports[0]}/" "http://127.0.0.1:${member_ports[1]}" >"$PEERS.new"
mv "$PEERS.new" "$PEERS"
see_states 0 "ok ok ok"
expect "url of 2" "$(answer members.2.url)" "http://127.0.0.1:${member_ports[2]}"
stop_member 1 TERM
member_ports[1]=
start_serve_alone() {
    : >"$T/log/x" # the port of the one before it would be read otherwise
    "$S" serve --listen 127.0.0.1:0 --state "$T/serve-x" --token-file "$T/token" "$@" >>"$T/log/x" 2>&1 &
    member_pids[9]=$!
    on_exit "stop_member 9 KILL"
    until_true 20 grep -q 'sampan serve: listening on port' "$T/log/x" || fail "$(cat "$T/log/x")"
    member_ports[1]=$(sed -n 's/.*sampan serve: listening on port \([0-9]*\).*/\1/p' "$T/log/x")
}
says_why() { states_are 0 "ok lost ok" && case $(answer members.1.why) in *"$1"*) ;; *) false ;; esac; }
start_serve_alone --ordinal 1 --partitions 4
write_peers
until_true 20 says_why "4 partitions" || fail "why: $(cat "$T/answer")"
stop_member 9
start_serve_alone --ordinal 0 --partitions 3
write_peers
until_true 20 says_why "server 0, as this one" || fail "why: $(cat "$T/answer")"
stop_member 9
stop_cluster
