#!/usr/bin/env bash
# /metrics is Prometheus text as its format says, tells what happened, and has every metric that the
# Grafana dashboard asks for.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 2 --files 10
mount_set "file://$SRC" --cache "ssd:$T/odd \"cache\""$'\n=1GiB'
start_serve
cat "$MNT"/class-000/* >/dev/null
drop_pages "$MNT/class-000"
cat "$MNT"/class-000/* >/dev/null
expect_code 201 POST /v1/jobs -d '{"id":"w","type":"warmup"}'
wait_job w succeeded
expect_code 200 GET /metrics
"$PYTHON" - "$T/answer" "$SAMPAN_TESTS/../deploy/grafana/sampan.json" "$MNT" <<'PY' || fail "the metrics are not what they should be"
import json, re, sys
lines = open(sys.argv[1]).read().split("\n")
assert lines.pop() == "", "the last line has no end"
label = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
sample = re.compile(rf'([a-z_]+)(?:\{{({label}(?:,{label})*)\}})? (\S+)$')
types, helps, seen, order = {}, {}, {}, []
for line in lines:
    if line.startswith("# HELP "):
        name, text = line[7:].split(" ", 1)
        assert name not in helps, f"{name} twice"
        helps[name] = text
        order.append(name)
    elif line.startswith("# TYPE "):
        name, kind = line[7:].split(" ")
        assert name == order[-1], line
        types[name] = kind
    else:
        m = sample.match(line)
        assert m, f"not a sample: {line}"
        base = re.sub("_(bucket|sum|count)$", "", m[1]) if m[1] not in types else m[1]
        assert base == order[-1], f"{m[1]} stands under {order[-1]}"
        key = (m[1], m[2] or "")
        assert key not in seen, f"twice: {key}"
        seen[key] = float(m[3])
for name, kind in types.items():
    assert (kind == "counter") == name.endswith("_total"), name
    assert helps[name].strip() and name.startswith("sampan_"), name
    if kind == "histogram":
        for labels in {re.sub(r',?le="[^"]*"', "", l) for n, l in seen if n == name + "_bucket"}:
            buckets = [v for (n, l), v in seen.items() if n == name + "_bucket" and re.sub(r',?le="[^"]*"', "", l) == labels]
            assert buckets == sorted(buckets) and buckets[-1] == seen[name + "_count", labels], name

mount = f'mount="{sys.argv[3]}"'
of = lambda name, more="": seen[name, mount + more]
assert of("sampan_set_samples") == of("sampan_cache_samples") == 20
assert of("sampan_warmup_progress_percent") == 100 and of("sampan_warmup_samples_done") == 20
reads = {s: of("sampan_reads_by_source_total", f',source="{s}"') for s in ("mem", "disk", "peer", "store")}
assert sum(reads.values()) == of("sampan_reads_total") >= 20, reads
assert sum(of("sampan_read_bytes_by_source_total", f',source="{s}"') for s in reads) == of("sampan_read_bytes_total")
assert abs(of("sampan_hit_ratio") - (reads["mem"] + reads["disk"]) / sum(reads.values())) < 1e-5
assert of("sampan_read_duration_seconds_count") == of("sampan_reads_total") and of("sampan_read_duration_seconds_sum") > 0
assert of("sampan_fetch_duration_seconds_count") > 0 and of("sampan_fetch_queued") == 0
assert seen['sampan_jobs', 'state="succeeded"'] == 1 and seen['sampan_member_up', 'member="0"'] == 1
assert any(n == "sampan_tier_used_bytes" and '\\"cache\\"\\n' in l and v > 0 for (n, l), v in seen.items())

page = json.load(open(sys.argv[2]))
asked = [t["expr"] for p in page["panels"] for t in p.get("targets", [])] + [v["query"]["query"] for v in page["templating"]["list"] if v["type"] == "query"]
assert len(asked) > 20
for expr in asked:
    for name in re.findall(r"\bsampan_[a-z_]+", expr):
        base = re.sub("_(bucket|sum|count)$", "", name)
        assert name in types or types.get(base) == "histogram", f"no metric {name}: {expr}"
    for labels in re.findall(r"(\w+)=~?\"", expr):
        assert labels in ("instance", "mount", "source", "state", "le", "member"), expr
PY
! command -v promtool >/dev/null || promtool check metrics <"$T/answer" || fail "promtool finds something"
stop_serve
unmount
