#!/usr/bin/env bash
# A file that is larger than the stage: ENOSPC at the write that does not fit, at once; what was taken is kept, stored
# whole or listed with the command that stores it, and nothing is left in the store when it is removed.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_writable_store # use_s3 behind the proxy
mount_writable "$STORE/out" --commit background --cache "ssd:$CACHE=24MiB"
ls "$MNT" >"$T/looked"
cat >"$T/fill.py" <<'PY'
"""fill.py NAME close|unlink: MiB i of NAME is all bytes i, until it is full; prints how many were taken."""
import errno, os, sys
path = os.path.join(os.environ["MNT"], sys.argv[1])
fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
for taken in range(64):
    try:
        assert os.write(fd, bytes([taken]) * (1 << 20)) == 1 << 20
    except OSError as e:
        assert e.errno == errno.ENOSPC, e
        break
if sys.argv[2] == "unlink":
    os.unlink(path)
os.close(fd)
print(taken)
PY
fill() { # NAME close|unlink
    timeout 600 "$PYTHON" "$T/fill.py" "$1" "$2" >"$T/taken-$1" || fail "$1 does not end in time"
}
export MNT
fill alone close # nothing else is owed: nobody waits for room that cannot come
at_least "MiB taken" "$(cat "$T/taken-alone")" 17
at_most "MiB taken" "$(cat "$T/taken-alone")" 24
at_most "bytes of the cache folder" "$(du -s -B1 "$CACHE" | cut -f1)" $((25 << 20))
sampan flush "$MNT"
faults "status=403 key=denied" # refused by the store, too
fill denied close
listed() { [ "$(pending failed)" = 1 ]; }
until_true 20 listed || fail "not listed: $(status pending)"
expect "the path" "$(status pending.items.0.path)" "denied"
expect "its bytes" "$(status pending.items.0.bytes)" $(($(cat "$T/taken-denied") << 20))
sampan doctor "$MNT" >"$T/doctor" && fail "doctor finds nothing wrong"
grep -q "not stored.*denied.*sampan flush $MNT" "$T/doctor" || fail "doctor says: $(cat "$T/doctor")"
faults
sampan flush "$MNT"
fill one close & # neither keeps the other waiting for ever
fill two close
wait $!
sampan flush "$MNT"
fill gone unlink
unmount
mkdir "$T/stored"
stored get "$T/stored"
"$PYTHON" - "$T" <<'PY'
import os, sys
top = sys.argv[1]
names = ["alone", "denied", "one", "two"]
assert sorted(os.listdir(top + "/stored/out")) == names, os.listdir(top + "/stored/out")
for name in names:
    taken = int(open(f"{top}/taken-{name}").read())
    print(name, taken, "MiB")
    data = open(f"{top}/stored/out/{name}", "rb").read()
    assert data == b"".join(bytes([i]) * (1 << 20) for i in range(taken)), f"{name} is not what was taken: {len(data)}"
PY
expect "uploads left behind" "$(stored uploads)" ""
