#!/usr/bin/env bash
# status has all its fields for a mount that can be written, and what is pending; settings change while mounted.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
mkdir -p "$SRC"
mount_writable "file://$SRC" --commit interval=1s
echo x >"$MNT/file"
sampan flush "$MNT"
sampan status "$MNT" --json >"$T/status"
"$PYTHON" - "$T/status" "$MNT/.sampan/status.json" <<'PY'
import json, sys
want = {"mountpoint", "uri", "version", "state", "pid", "keeper_pid", "restarts", "uptime_s", "mode", "profile", "set",
        "cache", "reads", "fetch", "memory", "warmup", "writable", "commit", "pending"}
inner = {"set": "samples bytes folders", "cache": "samples bytes tiers", "memory": "resident limit",
         "reads": "total bytes mem disk peer store pushed errors corrupt_repaired p50_us p99_us",
         "fetch": "requests bytes retries hedges in_flight in_flight_max",
         "warmup": "state percent samples_done samples_total failed eta_s", "pending": "files bytes failed oldest_s items"}
for path in sys.argv[1:]:
    status = json.load(open(path))
    assert want <= set(status), want - set(status)
    for name, fields in inner.items():
        assert set(fields.split()) <= set(status[name]), (name, status[name])
    assert status["writable"] is True and status["commit"] == "interval=1s" and status["state"] == "ready"
    assert set("tier dir limit used free state why".split()) <= set(status["cache"]["tiers"][0])
PY
sampan status "$MNT" | has "pending   nothing" || fail "not for people: $(sampan status "$MNT")"
sampan set "$MNT" refresh=100ms bandwidth=50MB connections=4
refused 2 "sampler is no setting" sampan set "$MNT" sampler=sequence
refused 2 "can be written" sampan warmup "$MNT"
sampan stats "$MNT" --count 1 --interval 100ms --json >"$T/stats"
touch "$SRC/from-elsewhere"
until_true 5 test -e "$MNT/from-elsewhere" || fail "another writer's file is not seen"
! mkdir "$MNT/.sampan" 2>/dev/null || fail ".sampan can be made"
ls -a "$MNT" | has sampan && fail ".sampan is listed"
unmount
