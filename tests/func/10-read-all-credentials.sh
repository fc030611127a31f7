#!/usr/bin/env bash
# Keys come from a Secret folder, an INI file with a profile, and never show in argv or logs.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 5
use_s3
s3 put "$BUCKET" "$SRC"
mkdir "$T/secret"
printf '%s' "$AWS_ACCESS_KEY_ID" >"$T/secret/AWS_ACCESS_KEY_ID"
printf '%s' "$AWS_SECRET_ACCESS_KEY" >"$T/secret/AWS_SECRET_ACCESS_KEY"
printf '[default]\naws_access_key_id = none\naws_secret_access_key = none\n[train]\naws_access_key_id = %s\naws_secret_access_key = %s\n' \
    "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" >"$T/credentials"
secret=$AWS_SECRET_ACCESS_KEY
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
mount_set "s3://$BUCKET/" --credentials "$T/secret" --log-level debug
same_bytes "$SRC" "$MNT"
! grep -qaF "$secret" /proc/"$(daemon_pid)"/cmdline || fail "the secret is in argv"
unmount
AWS_PROFILE=train mount_set "s3://$BUCKET/" --credentials "$T/credentials" --log-level debug
same_bytes "$SRC" "$MNT"
unmount
! grep -rqaF "$secret" "$T/log" "$CACHE" "$SAMPAN_RUN_DIR" || fail "the secret was written somewhere"
refused 2 "password|credential" sampan mount "s3://key:open-sesame@$BUCKET/" "$MNT" --cache "ssd:$CACHE=1GiB"
! grep -q sesame "$T/refused.err" || fail "the message shows the secret"
