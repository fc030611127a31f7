#!/usr/bin/env bash
# A mount by a catalog that lies in a bucket serves while the catalog comes: the owner killed in the middle goes on with
# what is here; a store that refuses is said by the mount, and one that fails later is waited for; then it is a version
# as any other, and nobody is asked any more.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
mkdir -p "$SRC"
head -c 3000 /dev/urandom >"$SRC/one.bin"
"$PYTHON" - "$SRC/manifest.tsv" <<'PY'
import sys
with open(sys.argv[1], "w", encoding="ascii") as out:
    out.writelines(f"set/c{i % 7}/{i:0180d}.bin\t3000\t1700000000\n" for i in range(60000))
PY
start_nginx 'rewrite ^/set/ /one.bin break;'
uri=$HTTP_URL/manifest.tsv
mkdir "$T/catalogs"
version=$(sampan scan "$uri" -o "$T/catalogs/new" --cache-dir "$T/scan" --json --quiet | field version)
mv "$T/catalogs/new" "$T/catalogs/$version"
use_s3
s3 put "$BUCKET" "$T/catalogs" catalogs/
start_proxy "$MOTO_URL"
export AWS_ENDPOINT_URL=$PROXY_URL
catalog=s3://$BUCKET/catalogs/$version
whole() { [ -n "$(kept)" ]; }
kept() { find "$T/cache" -name "$version.catalog"; }
parts() { find "$T/cache" -name '*.part*'; }
some() { # of the names, in another order each round
    local i
    for i in $(shuf -i 0-59999 -n 20); do
        cmp "$SRC/one.bin" "$MNT/$(printf 'set/c%d/%0180d.bin' $((i % 7)) "$i")"
    done
}

# What the store says is said by the mount, and nothing stays.
faults 'status=403 key=catalogs/'
refused 4 AccessDenied sampan mount "$uri" "$MNT" --cache-dir "$T/cache" --catalog "$catalog"
faults ''
refused 3 "$version" sampan mount "$uri" "$MNT" --cache-dir "$T/cache" --catalog "s3://$BUCKET/nowhere/$version"
refused 2 "64 hexadecimal" sampan mount "$uri" "$MNT" --cache-dir "$T/cache" --catalog "s3://$BUCKET/catalogs/new"
expect "left of them" "$(parts)" ""

# What is not that version once all of it is here: every look-up fails, and it is said why.
mkdir "$T/wrong"
"$PYTHON" - "$T/catalogs/$version" "$T/wrong/$version" <<'PY'
import sys
data = open(sys.argv[1], "rb").read()
name = b"%0180d.bin" % 59000
assert data.count(name) == 2  # the row's, and the index's
open(sys.argv[2], "wb").write(data.replace(name, b"9" * len(name), 1))
PY
s3 put "$BUCKET" "$T/wrong" wrong/
mount_set "$uri" --cache-dir "$T/cache" --catalog "s3://$BUCKET/wrong/$version"
degraded() { [ "$(status state)" = degraded ]; }
until_true 60 degraded || fail "another version is served"
! find "$MNT" 2>"$T/find" || fail "names of another version"
grep -q "Input/output error" "$T/find" || fail "find: $(cat "$T/find")"
sampan status "$MNT" | has "are here: what came from s3.*is not that version" || fail "$(sampan status "$MNT")"
sampan doctor "$MNT" >"$T/doctor" || true
grep -q "^wrong .*not believed" "$T/doctor" || fail "doctor: $(cat "$T/doctor")"
expect "left of it" "$(parts)$(kept)" ""
unmount

# Slow, and the owner is killed again and again.
faults 'rate=300000 key=catalogs/ range'
mount_set "$uri" --catalog "$catalog" --no-hedge
expect "samples" "$(status set.samples)" 60000
asked() { grep -c 'GET /manifest.tsv' "$T/log/nginx.access" || true; }
scans=$(asked)
for round in 1 2 3; do
    kill -9 "$(daemon_pid)"
    some
done
faults 'status=503 key=catalogs/ times=20'
until_true 60 whole || fail "the catalog does not come"
cmp "$(kept)" "$T/catalogs/$version"
no_parts() { [ -z "$(parts)" ]; } # they go when the whole one is there
until_true 20 no_parts || fail "left of its coming: $(parts)"
some
expect "lists of the source" "$(asked)" "$scans"
expect "names" "$(find "$MNT/set" -type f | wc -l)" 60000

# It is here: no store is asked, by this mount or the next one.
stop_proxy
kill -9 "$(daemon_pid)"
some
unmount
mount_set "$uri" --catalog "$catalog"
some
sampan scan "$MNT" --quiet
expect "the same version" "$(status version)" "$version"
unmount
nothing_left
