#!/usr/bin/env bash
# status --json has every promised field with its type; .sampan/status.json says the same and is hidden.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set
mount_set "file://$SRC"
cat "$MNT"/class-000/* >"$T/x"
cat >"$T/check.py" <<'PY'
import json, sys
number, text, rows = (int, float), str, list
want = {
    "mountpoint": text, "uri": text, "version": text, "state": text, "pid": number, "keeper_pid": number,
    "restarts": number, "uptime_s": number, "mode": text, "profile": text,
    "set": {"samples": number, "bytes": number, "folders": number},
    "cache": {"samples": number, "bytes": number, "tiers": rows},
    "reads": dict.fromkeys("total bytes mem disk peer store pushed errors corrupt_repaired p50_us p99_us".split(), number),
    "fetch": dict.fromkeys("requests bytes retries hedges in_flight in_flight_max".split(), number),
    "memory": {"resident": number, "limit": number},
    "warmup": {"state": text, "percent": number, "samples_done": number, "samples_total": number, "failed": number, "eta_s": number},
}
tier = {"tier": text, "dir": text, "limit": number, "used": number, "free": number, "state": text, "why": text}
def check(at, got, want):
    for name, kind in want.items():
        assert name in got, f"{at}{name} is missing"
        if isinstance(kind, dict):
            check(f"{at}{name}.", got[name], kind)
        else:
            assert isinstance(got[name], kind) and not (kind is number and isinstance(got[name], bool)), f"{at}{name}: {got[name]!r}"
got = json.load(open(sys.argv[1]))
check("", got, want)
for row in got["cache"]["tiers"]:
    check("cache.tiers.", row, tier)
assert got["state"] == "ready" and got["mountpoint"] == sys.argv[2], got["state"]
assert got["set"]["samples"] == 100 and got["reads"]["total"] > 0 and got["cache"]["tiers"][0]["limit"] == 1 << 30
PY
sampan status "$MNT" --json >"$T/status.json"
"$PYTHON" "$T/check.py" "$T/status.json" "$MNT"
for _ in 1 2 3; do
    cat "$MNT/.sampan/status.json" >"$T/inside.json"
    "$PYTHON" "$T/check.py" "$T/inside.json" "$MNT"
done
! ls -A "$MNT" | has sampan || fail ".sampan shows in a listing"
sampan status --json | has "\"$MNT\"" || fail "status without a mount does not list this one"
sampan stats "$MNT" --count 1 --interval 100ms >"$T/stats"
for source in mem disk peer store; do
    grep -q " $source/s " "$T/stats" || fail "stats do not show what came from $source: $(cat "$T/stats")"
done
sampan stats "$MNT" --json | head -n 1 | field reads >/dev/null || fail "stats --json has no reads"
unmount
expect "status of nothing" "$(sampan status --json | grep -c mountpoint || true)" 0
