#!/usr/bin/env bash
# Sets and jobs that are asked for at once come to be with a bounded number of requests, each object made once; then,
# while nothing changes, nothing is asked. (`make bench ROWS=operator` does it with 100 sets and 200 jobs.)
. "$SAMPAN_TESTS/lib/common.sh"
need_root "names of servers are given addresses"
need_command ip
export OPERATOR=$SAMPAN_BUILD/bin/sampan-operator T
[ -x "$OPERATOR" ] || skip "build/bin/sampan-operator is not built"
timeout 600 "$PYTHON" "$SAMPAN_TESTS/bench/operator_crowd.py" 4 9 3 3 >"$T/figures"
cat "$T/figures"
figure() { field "$1" <"$T/figures"; }
expect "made twice" "$(figure doubled)" "[]"
expect "warnings" "$(figure warnings)" "[]"
expect "requests while nothing changes" "$(figure quiet)" "[]"
expect "objects made" "$(figure made)" $((4 * 5 + 9 + 5 * 3 + 4 * 2)) # volume, claim, token, service, servers; maps and pods
# A set: 5 children, 2 labels of nodes, finalizer, order, and at most a dozen times its status and events. A job: pods
# twice (the barrier opens), map, finalizer, and as often its status and events.
at_most "writes" "$(figure requests.write)" $((4 * 22 + 9 * (2 * 3 + 14)))
at_most "reads" "$(figure requests.read)" $((14 + 4 * 8)) # kinds listed; tokens of servers, which are not kept
