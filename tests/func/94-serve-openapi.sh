#!/usr/bin/env bash
# docs/openapi.yaml is true: each of its paths is served with each of its methods, and the table of
# routes has no other.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 1 --files 3
mount_set "file://$SRC"
start_serve
"$PYTHON" - "$SAMPAN_TESTS/.." "http://127.0.0.1:$PORT" <<'PY' || fail "the page and the server differ"
import re, sys, urllib.request, urllib.error, yaml
root, base = sys.argv[1:]
page = yaml.safe_load(open(root + "/docs/openapi.yaml"))
types = page["components"]["parameters"]["CompatType"]["schema"]["enum"]
told = {(method.upper(), path.replace("{type}", kind))
        for path, item in page["paths"].items()
        for method in item if method in ("get", "post", "delete")
        for kind in (types if "{type}" in path else [""])}
text = open(root + "/runtime-server/routes.c").read() + open(root + "/runtime-server/compat.c").read()
served = set(re.findall(r'\{(GET|POST|DELETE), "(/[^"]*)", ', text))
served = {(method, path.replace("/ui/{id}", "/ui/{file}")) for method, path in served}
for method, head, tail in re.findall(r'(GET|POST|DELETE), "(/[^"]*)" #type "([^"]*)"', text):
    served |= {(method, head + kind + tail) for kind in types}
bad = ["%s %s: %s" % (*r, "not in the page" if r in served else "not in the table") for r in told ^ served]
for method, path in sorted(told):
    request = urllib.request.Request(base + re.sub(r"\{[a-z]*\}", "none", path), method=method)
    try:
        code = urllib.request.urlopen(request, timeout=300).status
    except urllib.error.HTTPError as e:
        code = e.code
    want = 200 if path in ("/healthz", "/readyz", "/", "/ui", "/ui/") else 404 if path == "/ui/{file}" else 401
    if code != want:
        bad.append(f"{method} {path}: {code} without a token, want {want}")
print("\n".join(bad))
sys.exit(bool(bad))
PY
stop_serve
unmount
