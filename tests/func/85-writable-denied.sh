#!/usr/bin/env bash
# A put that is denied is the writer's error at close and fsync; the bytes are kept, listed, and stored on `flush`.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_writable_store # use_s3 behind the proxy
mount_writable "$STORE/out"
echo fine >"$MNT/allowed"
faults "status=403 key=denied"
"$PYTHON" - "$MNT/denied" <<'PY'
import errno, os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
os.write(fd, b"kept bytes\n")
for call in (os.fsync, os.close):
    try:
        call(fd)
    except OSError as e:
        assert e.errno == errno.EACCES, e
    else:
        sys.exit("%s said nothing" % call.__name__)
PY
echo still works >"$MNT/other"
expect "its bytes" "$(cat "$MNT/denied")" "kept bytes"
expect "failed" "$(pending failed)" 1
expect "the path" "$(status pending.items.0.path)" "denied"
sampan doctor "$MNT" >"$T/doctor" && fail "doctor finds nothing wrong"
grep -q "not stored.*denied.*sampan flush $MNT" "$T/doctor" || fail "doctor says: $(cat "$T/doctor")"
refused "[14]" "not stored.*denied" sampan flush "$MNT"
refused "[14]" "--lazy.*denied" sampan umount "$MNT"
faults
sampan flush "$MNT"
expect "stored" "$(stored cat out/denied)" "kept bytes"
sampan doctor "$MNT" || fail "doctor still complains"
unmount
