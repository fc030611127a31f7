#!/usr/bin/env bash
# Five lives in a row that cannot start: degraded. Reads fail at once, status says why and since when, upgrade heals.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 1 --files 5
mount_set "file://$SRC"
same_bytes "$SRC" "$MNT"
mv "$SRC" "$T/src-away"
mv "$CACHE/catalog" "$T/catalog-away"
begun=$(date +%s)
kill -9 "$(life)"
degraded() { [ "$(status state)" = degraded ]; }
until_true 30 degraded || fail "not degraded: $(status state)"
status why
status why | has "5 lives in a row.*ended with code.*no such folder" || fail "why: $(status why)"
at_least "since" "$(status since)" $((begun))
"$PYTHON" - "$MNT" <<'PY'
import errno, os, sys
def read():
    with open(sys.argv[1] + "/class-000/000001.bin", "rb") as f: # the name may be in the kernel's cache
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        f.read()
for what in (read, lambda: os.stat(sys.argv[1] + "/never-seen")):
    try:
        what()
        sys.exit("it answers")
    except OSError as e:
        if e.errno != errno.EIO:
            raise
PY
code=0
sampan doctor "$MNT" >"$T/doctor" || code=$?
grep -q "degraded.*$MNT" "$T/doctor" || fail "doctor: $(cat "$T/doctor")"
refused 1 "degraded" sampan warmup "$MNT"
refused 1 "degraded" sampan flush "$MNT"
refused 1 "did not get ready|degraded|no such folder" sampan upgrade "$MNT"
expect "still" "$(status state)" degraded
mv "$T/src-away" "$SRC"
mv "$T/catalog-away" "$CACHE/catalog"
sampan upgrade "$MNT"
expect "state" "$(status state)" ready
same_bytes "$SRC" "$MNT"
unmount
nothing_left
