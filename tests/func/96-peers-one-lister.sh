#!/usr/bin/env bash
# One machine lists the source; another fetches its catalog and follows it, lists nothing itself (the
# store's log), also where its daemon was killed, and starts without it from what the other served last, be that a set
# that went back to what it was before. An address that names a version is content with no other.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/peers.sh"
need_mount
make_set --classes 2 --files 5
start_nginx
listings() { grep -c '^GET /[^ ]*/ \|^GET / ' "$T/log/nginx.access" || true; }
version_of() { sampan status "$T/m$1" --json | field version; }
mount_1() {
    sampan mount "$HTTP_URL/" "$T/m1" --cache "ssd:$T/c1=1GiB" --catalog "${URL[0]}/v1/catalog/current" --refresh 1s \
        --peer-token-file "$T/token"
}
peer_nodes 1 "$HTTP_URL/"
: >"$T/log/nginx.access"
mkdir -p "$T/m1"
on_exit "sampan umount '$T/m1' || umount -l '$T/m1'"
mount_1
expect "listings by the follower" "$(listings)" 0
expect "versions" "$(version_of 1)" "$(version_of 0)"
same_bytes "$SRC" "$T/m1"
head -c 5000 /dev/urandom >"$SRC/class-000/zz-new.bin"
sampan scan "$T/m0" >"$T/scan.out"
agree() { [ "$(version_of 1)" = "$(version_of 0)" ] && [ -e "$T/m1/class-000/zz-new.bin" ]; }
until_true 20 agree || fail "the follower serves $(version_of 1), want $(version_of 0)"
same_bytes "$SRC" "$T/m1"

kill -9 "$(sampan status "$T/m1" --json | field pid)"
again() { [ "$(sampan status "$T/m1" --json | field restarts)" = 1 ]; }
until_true 20 again || fail "no new daemon"
: >"$T/log/nginx.access"
head -c 6000 /dev/urandom >"$SRC/class-001/zz-new.bin"
sampan scan "$T/m0" >"$T/scan.out"
by_one=$(listings)
agree() { [ "$(version_of 1)" = "$(version_of 0)" ]; }
until_true 20 agree || fail "the next daemon serves $(version_of 1), want $(version_of 0)"
sleep 2.5 # refreshes come and go
expect "listings, all by one" "$(listings)" "$by_one"
same_bytes "$SRC" "$T/m1"
newer=$(version_of 1)
rm "$SRC/class-001/zz-new.bin" # the set is again what it was
sampan scan "$T/m0" >"$T/scan.out"
until_true 20 agree || fail "the follower serves $(version_of 1), want $(version_of 0)"
older=$(version_of 1)
[ "$older" != "$newer" ] || fail "the set has not changed"
sampan umount "$T/m1"
peer_stop 0 # the lister's server is gone: what is here is enough
mount_1
expect "version without the lister" "$(version_of 1)" "$older"
same_bytes "$SRC" "$T/m1"
sampan umount "$T/m1"
named() { # DIGEST
    sampan mount "$HTTP_URL/" "$T/m1" --cache "ssd:$T/c1=1GiB" --catalog "${URL[0]}/v1/catalog/$1" --peer-token-file "$T/token"
}
named "$newer"
expect "version that was named, without the lister" "$(version_of 1)" "$newer"
sampan umount "$T/m1"
refused 1 "could not connect" named "$(printf '0%.0s' $(seq 64))"
# A digest that nobody has, and a wrong token, are said so.
peer_serve 0
refused 3 "no version" sampan mount "$HTTP_URL/" "$T/m1" --cache "ssd:$T/c2=1GiB" --peer-token-file "$T/token" \
    --catalog "${URL[0]}/v1/catalog/$(printf '0%.0s' $(seq 64))"
refused 4 "token" sampan mount "$HTTP_URL/" "$T/m1" --cache "ssd:$T/c2=1GiB" --catalog "${URL[0]}/v1/catalog/current"
unpeer
