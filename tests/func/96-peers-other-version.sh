#!/usr/bin/env bash
# A peer of another version is left alone, and asked as soon as the versions agree. Catalogs that were made
# apart agree where their ids do.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/peers.sh"
need_mount
make_set --classes 2 --files 8
start_nginx
sampan scan "$HTTP_URL/" --cache "ssd:$T/scan=1GiB" -o "$T/old.catalog" >"$T/scan.out"
head -c 5000 /dev/urandom >"$SRC/class-000/zz-new.bin"
peer_nodes 2 "$HTTP_URL/" --strategy hash # each lists for itself
sampan warmup "$T/m1" --quiet
until_true 20 peer_is 0 1 ok || fail "made apart: the peer is $(peer_of 0 1 state)"
same_bytes "$SRC" "$T/m0"
at_least "samples from the peer" "$(peer_of 0 1 samples)" 1

head -c 7000 /dev/urandom >"$SRC/class-001/zz-newer.bin"
sampan scan "$T/m0" >"$T/scan.out"
sampan clear "$T/m0" >"$T/clear.out"
drop_pages "$T/m0"
same_bytes "$SRC" "$T/m0"
until_true 20 peer_is 0 1 version || fail "the peer of another version is $(peer_of 0 1 state)"
sampan scan "$T/m1" >"$T/scan.out"
until_true 30 peer_is 0 1 ok || fail "the peer of the same version is $(peer_of 0 1 state): $(peer_of 0 1 why)"
unpeer
