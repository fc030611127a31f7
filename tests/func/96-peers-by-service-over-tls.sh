#!/usr/bin/env bash
# Servers that speak TLS with one another; the mounts name one address, a service, learn all machines from it,
# and read what the other keeps from it. A certificate of somebody else's is not taken.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
. "$SAMPAN_TESTS/lib/cluster.sh"
. "$SAMPAN_TESTS/lib/peers.sh"
need_mount
need_command openssl
new_pair() { # NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" \
        -addext 'subjectAltName=IP:127.0.0.1' -keyout "$T/$1.key" -out "$T/$1.crt" 2>/dev/null
}
new_pair ours
new_pair theirs
export CURL_CA_BUNDLE=$T/ours.crt
SCHEME=https
make_set --classes 2 --files 10
start_nginx
sampan scan "$HTTP_URL/" --cache "ssd:$T/scan=1GiB" -o "$T/set.catalog" >"$T/scan.out"
mount_all 2 "$HTTP_URL/" --catalog "$T/set.catalog" --strategy sequence --peer-token-file "$T/token" --ca-file "$T/ours.crt"
cluster 2 --tls-cert "$T/ours.crt" --tls-key "$T/ours.key" --ca-file "$T/ours.crt"
at 0 expect_code 201 POST /v1/jobs -d '{"id":"w","type":"warmup"}'
at 0 wait_job w succeeded
for k in 0 1; do
    ln -s "mnt-$k" "$T/m$k"
    sampan set "$T/mnt-$k" "partition=$k/2" "peers=https://127.0.0.1:${member_ports[k]}"
done
all_peers_ok 2
: >"$T/log/nginx.access"
for k in 0 1; do same_bytes "$SRC" "$T/mnt-$k"; done
expect "requests to the store" "$(wc -l <"$T/log/nginx.access")" 0
for k in 0 1; do expect "samples that node $k has from the other" "$(from_peers "$k")" 10; done

# The server at the same place now shows a certificate that nobody here trusts.
LISTEN_PORT=${member_ports[1]}
stop_member 1
cluster_options=(--tls-cert "$T/theirs.crt" --tls-key "$T/theirs.key" --ca-file "$T/ours.crt")
start_member 1
drop_pages "$T/mnt-0"
sampan clear "$T/mnt-0" >"$T/clear.out"
same_bytes "$SRC" "$T/mnt-0"
expect "errors" "$(reads 0 errors)" 0
expect "samples that a stranger gave" "$(from_peers 0)" 10
[ "$(peer_of 0 1 state)" != ok ] || fail "node 0 trusts a stranger"
see_states 0 "ok lost"
case $(answer members.1.why) in *certificate*) ;; *) fail "why: $(cat "$T/answer")" ;; esac
stop_cluster
unmount_all
