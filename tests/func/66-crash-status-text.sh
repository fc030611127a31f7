#!/usr/bin/env bash
# A status text whose read spans a death of the daemon, or an upgrade, is whole and the one that was looked up.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
cat >"$T/span.py" <<'PY'
import json, os, subprocess, sys
path, break_it = sys.argv[1], sys.argv[2:]
held = [os.open(path, os.O_RDONLY) for _ in range(3)]
sizes = [os.fstat(fd).st_size for fd in held]
begun = os.pread(held[0], 40, 0)
os.posix_fadvise(held[0], 0, 0, os.POSIX_FADV_DONTNEED)
subprocess.run(break_it, check=True, stdout=sys.stderr)
for fd, size in zip(held, sizes):
    text = os.pread(fd, 1 << 20, 0)
    assert len(text) == size == os.fstat(fd).st_size, (len(text), size)
    told = json.loads(text)
assert os.pread(held[0], 40, 0) == begun
print(told["pid"])
PY
spans() { # COMMAND…
    local old
    old=$(life)
    expect "pid in the text" "$("$PYTHON" "$T/span.py" "$MNT/.sampan/status.json" "$@")" "$old"
    [ "$(life)" != "$old" ] || fail "nothing was restarted"
    [ "$(field pid <"$MNT/.sampan/status.json")" = "$(life)" ] || fail "a new look gives an old text"
}
killed() {
    kill_life
}
export -f killed kill_life life restarts_are status field until_true sampan fail
export MNT S PYTHON
make_set --classes 1 --files 3
mount_set "file://$SRC"
spans bash -c killed
spans "$S" upgrade "$MNT"
unmount
mkdir "$T/out"
CACHE=$T/cache-out
mount_writable "file://$T/out"
spans bash -c killed
spans "$S" upgrade "$MNT"
unmount
nothing_left
