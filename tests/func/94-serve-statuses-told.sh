#!/usr/bin/env bash
# docs/openapi.yaml tells each status that a route answers with: with a token and without, while too many listen to events, while
# the disk of the state is full, and to an address that asks too often.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
need_root "mounts a small tmpfs"
make_set --classes 1 --files 3
mount_set "file://$SRC"
mkdir "$T/serve"
mount -t tmpfs -o size=1m tmpfs "$T/serve"
on_exit "umount -l $T/serve"
cat >"$T/ask.py" <<'PY'
import http.client, json, sys, yaml
page_path, port, token, when, *wanted = sys.argv[1:]
page = yaml.safe_load(open(page_path))
ANY_ROUTE = {405, 413, 500}
BODIES = {"/v1/jobs": json.dumps({"id": "of-" + when, "type": "scan"}), "/v1/lists": when, "/upload/{type}Options": "{}"}
seen, bad = set(), []

def ask(method, path):
    c = http.client.HTTPConnection("127.0.0.1", int(port), timeout=300)
    c.request(method, path.replace("{type}", "warmup").replace("{id}", when).replace("{file}", "app.js"),
              BODIES.get(path, "{}") if method == "POST" else None, {"Authorization": f"Bearer {token}", "filename": when})
    return c, c.getresponse().status

listeners = [ask("GET", "/events")[0] for _ in range(64)] if when == "full" else []
for path, item in page["paths"].items():
    for method in (m for m in ("post", "get", "delete") if m in item):
        status = ask(method.upper(), path)[1]
        seen.add(f"{method} {path} {status}")
        if str(status) not in item[method]["responses"] and status not in ANY_ROUTE:
            bad.append(f"{method} {path}: {status}")
print("\n".join(bad))
missing = [w for w in wanted if w not in seen]
sys.exit(f"not seen: {missing} in {sorted(seen)}" if missing else bool(bad))
PY
ask_all() { # TOKEN WHEN ROUTE-AND-STATUS…
    "$PYTHON" "$T/ask.py" "$SAMPAN_TESTS/../docs/openapi.yaml" "$PORT" "$@" || fail "$2: the page does not tell these"
}

start_serve
ask_all a-guess-of-enough-length guess "get /v1/jobs 401"
ask_all "$TOKEN" good "get /v1/jobs 200"
expect_code 201 POST /v1/jobs -d '{"id":"full","type":"scan","schedule":"0 0 1 1 *"}'
dd if=/dev/zero of="$T/serve/filler" bs=4k 2>/dev/null || true
ask_all "$TOKEN" full "get /events 503" "post /v1/lists 507" "post /v1/jobs 507" "post /v1/jobs/{id}/pause 507" "delete /v1/jobs/{id} 507"
rm "$T/serve/filler"
stop_serve
start_serve --rate-limit 1
cut_off() { ask GET /healthz; [ "$CODE" = 429 ]; }
until_true 20 cut_off || fail "nobody is cut off: $CODE"
ask_all "$TOKEN" often
stop_serve
unmount
