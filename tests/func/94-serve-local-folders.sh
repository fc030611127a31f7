#!/usr/bin/env bash
# A job reaches local folders of the server's mounts alone, however they are spelt, and whatever they have become when it runs.
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
for id in s r; do
    until_true 40 ended $id || fail "$(cat "$T/answer")"
    expect "job $id" "$(answer state)" failed
    case $(answer error) in *"a local folder must lie below a mount"*) ;; *) fail "$(answer error)" ;; esac
done
expect "what lies elsewhere" "$(cat "$T/outside/file")" the-secret
expect "what was copied" "$(find "$MNT/copy" -type f -size -100c 2>/dev/null | wc -l)" 0
stop_serve
unmount
