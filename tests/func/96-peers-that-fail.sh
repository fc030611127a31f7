#!/usr/bin/env bash
# A peer that sends wrong bytes, ends early, stalls, is busy, refuses the token or is dead: every byte that
# a reader gets is right, the store serves what the peer does not, and it is asked again when it is well.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/peers.sh"
unset SAMPAN_PEER_PATIENCE_MS
need_mount
make_set --classes 2 --files 6
start_nginx
sampan scan "$HTTP_URL/" --cache "ssd:$T/scan=1GiB" -o "$T/set.catalog" >"$T/scan.out"
peer_nodes 2 "$HTTP_URL/" --catalog "$T/set.catalog" --strategy hash
start_proxy "${URL[1]}"
sampan warmup "$T/m1" --quiet
sampan set "$T/m0" "peers=${URL[0]},$PROXY_URL"
until_true 20 peer_is 0 1 ok || fail "the peer is $(peer_of 0 1 state)"

read_all() { # from nothing: its cache and the kernel's are empty
    sampan clear "$T/m0" >"$T/clear.out"
    drop_pages "$T/m0"
    cmp <(cat "$SRC"/*/*) <(cat "$T/m0"/*/*) || fail "wrong bytes after $1"
    expect "errors after $1" "$(reads 0 errors)" 0
}
is_more() { [ "$(peer_of 0 1 "$1")" -gt "$2" ]; }

for fault in flip truncate reset stall status=500; do
    bad=$(($(peer_of 0 1 bad) + $(peer_of 0 1 errors)))
    faults "$fault key=batch times=1"
    read_all "$fault"
    more() { [ $(($(peer_of 0 1 bad) + $(peer_of 0 1 errors))) -gt "$bad" ]; }
    more || fail "$fault was not counted"
    faults
    until_true 40 peer_is 0 1 ok || fail "after $fault the peer stays $(peer_of 0 1 state): $(peer_of 0 1 why)"
    samples=$(peer_of 0 1 samples)
    asked_again() {
        read_all "the end of $fault"
        is_more samples "$samples"
    }
    until_true 40 asked_again || fail "after $fault the peer is not asked again" # it may have waited long for a processor
done

# Dead: it costs one refused connection. Back: it is found by itself.
stop_proxy
read_all "its death"
until_true 20 peer_is 0 1 lost || fail "a dead peer is $(peer_of 0 1 state)"
# Another token there: said so, and well again with the right one.
echo another-token-0123456789 >"$T/token2"
sampan set "$T/m0" "peers=${URL[0]},${URL[1]}" "peer-token-file=$T/token2"
until_true 20 peer_is 0 1 denied || fail "with a wrong token the peer is $(peer_of 0 1 state)"
read_all "a wrong token"
sampan set "$T/m0" "peer-token-file=$T/token"
until_true 20 peer_is 0 1 ok || fail "with the right token the peer is $(peer_of 0 1 state)"
unpeer
