#!/usr/bin/env bash
# A mount on a machine that has no server of the set, but knows their service, goes where they are: to a newer version,
# and back to a pinned one that it never had. Without them it keeps what it has, over its owner's death too, and says
# so; a service of another set, or one that refuses the token, moves nobody.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
. "$SAMPAN_TESTS/lib/cluster.sh"
need_mount
make_set --classes 2 --files 5
echo "$TOKEN" >"$T/token"
mount_all 2 "file://$SRC"
cluster 2 --guide 127.0.0.1
one=$(mount_status 0 version)
for k in 0 1; do until_true 30 eval "[ \"\$(mount_status $k partition.partitions)\" = 2 ]" || fail "mount $k was not told"; done
listing "$T/mnt-0" >"$T/listing.one"

echo "other bytes" >"$SRC/class-000/000001.bin"
echo "a new sample" >"$SRC/class-000/new.bin"
far() { # NAME SET [OPTIONS…]
    local name=$1 set=$2
    shift 2
    mkdir -p "$T/$name"
    on_exit "sampan umount '$T/$name' || umount -l '$T/$name'"
    sampan mount "$set" "$T/$name" --cache "ssd:$T/c-$name=1GiB" --peers "http://127.0.0.1:${member_ports[0]}" "$@"
}
far_is() { # NAME VERSION PINNED
    [ "$(sampan status "$T/$1" --json | field version) $(sampan status "$T/$1" --json | field pinned)" = "$2 $3" ]
}
goes() { until_true 60 far_is "$@" || fail "$1 serves $(sampan status "$T/$1" --json | field version), not $2 (pinned $3)"; }
says() { # NAME FIELD TEXT
    case $(sampan status "$T/$1" --json | field "$2") in *"$3"*) ;; *) return 1 ;; esac
}

# It lists for itself, what the servers have not seen yet: then it is where they are.
far far "file://$SRC" --peer-token-file "$T/token" --refresh 1s
goes far "$one" false
listing "$T/far" >"$T/listing"
cmp "$T/listing.one" "$T/listing" || fail "other names, sizes or times: $(diff "$T/listing.one" "$T/listing" | head -5)"
says far follows true || fail "the status does not say that it follows"
refused 2 "the servers of its set" sampan set "$T/far" "version=$one"
# A newer one. Its own refreshes, of which there was one a second, changed nothing of that.
far_is far "$one" false || fail "its own refresh was served"
for k in 0 1; do two=$(sampan scan "$T/mnt-$k" --json | field version); done
goes far "$two" false
same_bytes "$SRC" "$T/far"
# And back.
for k in 0 1; do at $k expect_code 200 POST /v1/settings -d "{\"version\":\"$one\"}"; done
goes far "$one" true
listing "$T/far" >"$T/listing"
cmp "$T/listing.one" "$T/listing" || fail "other names, sizes or times: $(diff "$T/listing.one" "$T/listing" | head -5)"
cmp "$SRC/class-000/000000.bin" "$T/far/class-000/000000.bin"
cat "$T/far/class-000/000001.bin" >"$T/out" 2>"$T/err" && fail "a sample was read that is nowhere any more"
grep -q Stale "$T/err" || fail "not ESTALE: $(cat "$T/err")"

# Servers of another set, and those that refuse the token.
mkdir "$T/other"
echo "of another set" >"$T/other/sample.bin"
far stranger "file://$T/other" --peer-token-file "$T/token"
own=$(sampan status "$T/stranger" --json | field version)
until_true 60 says stranger follows_why "another set" || fail "why: $(sampan status "$T/stranger" --json | field follows_why)"
far_is stranger "$own" false || fail "it went to a version of another set"
same_bytes "$T/other" "$T/stranger"
sampan umount "$T/stranger"
echo wrong >"$T/wrong"
far denied "file://$SRC" --peer-token-file "$T/wrong"
until_true 60 says denied peers_why 401 || fail "why: $(sampan status "$T/denied" --json | field peers_why)"
far_is denied "$two" false || fail "it went somewhere by a server that refused it"
says denied follows false || fail "it says that it follows"
sampan umount "$T/denied"

# Without servers: it stays, and says why nothing is heard.
ports=("${member_ports[@]}")
stop_cluster
until_true 60 says far peers_why "127.0.0.1" || fail "why: $(sampan status "$T/far" --json | field peers_why)"
far_is far "$one" true || fail "it left the version when the servers were gone"
kill -9 "$(sampan status "$T/far" --json | field pid)"
listing "$T/far" >"$T/listing"
cmp "$T/listing.one" "$T/listing" || fail "another version after its owner's death"
far_is far "$one" true || fail "another version after its owner's death"
# They are back, and let it go.
for k in 0 1; do
    LISTEN_PORT=${ports[k]}
    start_member $k
    at $k expect_code 200 POST /v1/settings -d '{"version":""}'
done
goes far "$two" false
same_bytes "$SRC" "$T/far"
# Asked no more: its version is its own again.
sampan set "$T/far" peers=
says far follows false || fail "it follows nobody, and says that it does"
sampan set "$T/far" "version=$one"
far_is far "$one" true || fail "set by hand: $(sampan status "$T/far" --json | field version)"
sampan umount "$T/far"
stop_cluster
unmount_all
