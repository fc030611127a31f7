#!/usr/bin/env bash
# A job reaches local folders of the server's mounts alone, however they are spelt, whatever they have become when it runs,
# and whatever links lie in them.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
mkdir -p "$T/outside" "$T/store"
echo the-secret >"$T/outside/file"
mount_writable "file://$T/store"
mkdir -p "$MNT/data" "$MNT/copy/old"
echo x >"$MNT/copy/old/file"
head -c 200000 /dev/urandom >"$MNT/data/file"
ln -s "$T/outside" "$MNT/link"
ln -s "$T/nowhere" "$MNT/dangling"
start_serve
job() { # ID TYPE OPTIONS
    printf '{"id":"%s","type":"%s","options":%s}' "$@"
}
sync_job() { # ID FROM TO
    job "$1" sync "{\"sources\":[\"$2\"],\"destination\":\"$3\",\"bandwidth\":1000,\"links\":false}"
}
for uri in "FILE://$T/outside" "File://$T/outside" "file://$MNT/link" "file://$MNT/dangling/x" "file://localhost$T/outside"; do
    expect_code 403 POST /v1/jobs -d "$(sync_job x "$uri" "file://$MNT/copy")"
    expect_code 403 POST /v1/jobs -d "$(sync_job x "file://$MNT/data" "$uri")"
    expect_code 403 POST /v1/jobs -d "$(job x rmr "{\"uris\":[\"$uri\"]}")"
done
# While they wait for a server what they name is made to lead elsewhere. The second waits for the first, which writes above it.
expect_code 201 POST /v1/jobs -d "$(sync_job s "file://$MNT/data" "file://$MNT/copy")"
wait_job s running
expect_code 201 POST /v1/jobs -d "$(job r rmr "{\"uris\":[\"file://$MNT/copy/old\"],\"skipTrash\":true}")"
expect "it waits" "$(job_state r)" pending
stop_serve KILL
rm -r "$MNT/copy/old"
ln -s "$T/outside" "$MNT/copy/old"
mv "$MNT/data" "$MNT/moved"
ln -s "$T/outside" "$MNT/data"
start_serve
ended() { case $(job_state "$1") in failed | succeeded) ;; *) return 1 ;; esac; }
ends() { # ID STATE
    until_true 40 ended "$1" || fail "$(cat "$T/answer")"
    expect "job $1: $(cat "$T/answer")" "$(answer state)" "$2"
}
for id in s r; do
    ends $id failed
    case $(answer error) in *"a local folder must lie below a mount"*) ;; *) fail "$(answer error)" ;; esac
done
expect "what lies elsewhere" "$(cat "$T/outside/file")" the-secret
expect "what was copied" "$(find "$MNT/copy" -type f -size -100c 2>/dev/null | wc -l)" 0
# Links in a source, and in a destination, which somebody put there who may write into the mount.
mkdir -p "$MNT/d" "$MNT/e" "$MNT/from/sv"
echo y >"$MNT/d/y"
echo evil | tee "$MNT/from/sv/file" >"$MNT/from/sv/evil"
ln -s "$T/outside" "$MNT/d/l"
ln -s "$T/outside/file" "$MNT/d/f"
ln -s y "$MNT/d/ly"
ln -s "$T/outside" "$MNT/e/sv"
ln -s "$MNT" "$T/alias"
expect_code 201 POST /v1/jobs -d "$(job read sync "{\"sources\":[\"file://$MNT/d\"],\"destination\":\"file://$MNT/got\"}")"
ends read failed
case $(cat "$T/answer") in *"a link that leads nowhere or may not be followed"*) ;; *) fail "$(cat "$T/answer")" ;; esac
expect "what was read" "$(ls "$MNT/got")" y
for flag in update perms; do
    expect_code 201 POST /v1/jobs -d \
        "$(job write-$flag sync "{\"sources\":[\"file://$MNT/from\"],\"destination\":\"file://$MNT/e\",\"dirs\":true,\"$flag\":true}")"
    ends write-$flag failed
    case $(cat "$T/answer") in */proc/self*) fail "$(cat "$T/answer")" ;; *"/e/sv"*) ;; *) fail "$(cat "$T/answer")" ;; esac
done
expect "what lies elsewhere" "$(ls "$T/outside"; cat "$T/outside/file")" "$(printf 'file\nthe-secret')"
# Links are still copied as links, and removed as links; a mount may be named by one.
expect_code 201 POST /v1/jobs -d "$(job links sync "{\"sources\":[\"file://$T/alias/d\"],\"destination\":\"file://$MNT/kept\",\"links\":true}")"
ends links succeeded
expect "links kept" "$(readlink "$MNT/kept/l" "$MNT/kept/ly")" "$(printf '%s\ny' "$T/outside")"
expect_code 201 POST /v1/jobs -d "$(job one rmr "{\"uris\":[\"file://$T/alias/kept/ly\"],\"skipTrash\":true}")"
ends one succeeded
expect "what is left" "$(ls "$MNT/kept" | tr '\n' ' ')" "f l y "
expect_code 201 POST /v1/jobs -d "$(job all rmr "{\"uris\":[\"file://$MNT/kept/\"],\"skipTrash\":true}")"
ends all succeeded
[ ! -e "$MNT/kept" ] || fail "it is still there"
ln -s "$T/outside" "$MNT/d/.trash"
expect_code 201 POST /v1/jobs -d "$(job trash rmr "{\"uris\":[\"file://$MNT/d/y\"]}")"
ends trash failed
expect "what was to go" "$(cat "$MNT/d/y")" y
expect "what lies elsewhere" "$(ls "$T/outside"; cat "$T/outside/file")" "$(printf 'file\nthe-secret')"
stop_serve
unmount
