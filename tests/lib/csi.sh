# Sourced after common.sh by tests of the CSI plugin.
#
#   csi_python <<'PY'    runs a script with tests/lib/csi.py imported; $SRC is src, plugin() makes one
#   nothing_of_csi       no mount below $T, no daemon, no record, no credential is left
need_mount
need_root "the plugin makes bind mounts"
export T SRC BUCKET=${BUCKET:-} SAMPAN_CACHE_DIR=$T/caches
[ -x "$VENV/bin/python" ] && "$VENV/bin/python" -c 'import grpc, google.protobuf' 2>/dev/null || skip "grpcio is not there (make venv)"

end_csi() { # binds first: the owner of a set ends with the last of its mounts
    local m
    for m in $(awk -v top="$T/" 'index($5, top) == 1 { print $5 }' /proc/self/mountinfo | sort -r); do
        case $m in */state/mnt/*) ;; *) umount -l "$m" ;; esac
    done
    for m in $(awk -v top="$T/" 'index($5, top) == 1 { print $5 }' /proc/self/mountinfo); do
        sampan umount "$m" || umount -l "$m"
    done
    until_true 20 no_daemon
}
on_exit end_csi

csi_python() {
    { cat <<'PY'
import os, sys, time, json, subprocess, signal
sys.path.insert(0, os.path.join(os.environ["SAMPAN_TESTS"], "lib"))
from csi import *
T, src = os.environ["T"], os.environ["SRC"]
made = []
def plugin(*args, **kw):
    made.append(Plugin(*args, **kw))
    return made[-1]
def expect(what, got, want):
    if got != want:
        raise SystemExit(f"{what}: got {got!r}, want {want!r}")
def files(folder):
    return sorted(os.path.join(d, n) for d, _, names in os.walk(folder) for n in names)
PY
        echo "def main():"
        sed 's/^/    /'
        cat <<'PY'
try:
    main()
    for p in made:
        p.stop()
finally:
    for p in made:
        if p.process and p.process.poll() is None:
            p.process.kill()
            p.process.wait()
PY
    } >"$T/csi-test.py"
    timeout 800 "$VENV/bin/python" "$T/csi-test.py"
}

nothing_of_csi() {
    local left
    left=$(awk -v top="$T/" 'index($5, top) == 1 { print $5 }' /proc/self/mountinfo)
    [ -z "$left" ] || fail "mounts were left: $left"
    until_true 10 no_daemon || fail "a process was left behind: $(daemons) $(keepers)"
    left=$(find "$T"/csi*/state "$T"/csi*/run "$SAMPAN_RUN_DIR" -type f ! -name '*.lock' 2>/dev/null || true)
    [ -z "$left" ] || fail "files were left: $left"
    left=$(find "$T"/csi*/state/mnt -mindepth 1 2>/dev/null || true)
    [ -z "$left" ] || fail "folders were left: $left"
}
