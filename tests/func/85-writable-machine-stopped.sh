#!/usr/bin/env bash
# The machine stops while files wait for their store. What nobody synced may be torn: it is kept, told, and stored when
# `sampan flush` asks for it. The machine's stop: both processes killed at once, and another boot in the journal.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
use_writable_store # use_s3 behind the proxy
mount_writable "$STORE/out" --commit background
echo before >"$MNT/stored"
sampan flush "$MNT"
faults "status=503"
echo kept >"$MNT/torn"
keeper=$(keeper) daemon=$(life)
kill -STOP "$daemon"
kill -9 "$keeper" "$daemon"
until_true 20 no_daemon
sampan umount --lazy "$MNT"
faults
journal=$(find "$CACHE" -name journal.db -path '*stage*')
"$VENV/bin/python" -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
assert db.execute("UPDATE meta SET value = value + 1 WHERE key = \"boot\"").rowcount == 1
db.commit()' "$journal"
mount_writable "$STORE/out" --commit background
expect "pending" "$(pending files)/$(pending failed)" 1/1
sampan status --json | has "the machine stopped while it was written" || fail "status: $(sampan status --json)"
code=0
sampan doctor >"$T/doctor" || code=$?
expect "exit code of doctor" "$code" 1
grep -q "sampan flush $MNT" "$T/doctor" || fail "doctor: $(cat "$T/doctor")"
expect "the content that is left" "$(cat "$MNT/torn")" kept
expect "objects" "$(keys | tr '\n' ' ')" "out/stored "
sampan umount "$MNT" 2>"$T/umount"
grep -q "(torn: the machine stopped.*it stays in the cache folder" "$T/umount" || fail "umount: $(cat "$T/umount")"
mount_writable "$STORE/out" --commit background
expect "objects" "$(keys | tr '\n' ' ')" "out/stored "
sampan flush "$MNT"
expect "pending" "$(pending files)" 0
expect "stored" "$(stored cat out/torn)" kept
unmount
