#!/usr/bin/env bash
# Extended attributes tell about a sample; two ioctls on the root carry status and orders.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_command getfattr
make_set --classes 1 --files 3
mount_set "file://$SRC"
f=$MNT/class-000/000001.bin
attribute() { getfattr --absolute-names --only-values -n "user.sampan.$1" "$f"; }
[ -n "$(attribute etag)" ] || fail "no etag"
before=$(attribute cached)
cat "$f" >"$T/x"
now_cached() { [ "$(attribute cached)" != "$before" ]; }
until_true 10 now_cached || fail "user.sampan.cached is '$before' before and after the read"
attribute source | has 'file://' || fail "source: $(attribute source)"
attribute partition >"$T/p" || fail "no partition attribute"
getfattr -d --absolute-names "$f" | has user.sampan.etag || fail "listxattr does not name it"

# a SPEC that no later life would have whole is refused, and one that it would have is read to its end
cat >"$T/set.py" <<'PY'
import errno, fcntl, os, sys
root = os.open(sys.argv[1], os.O_RDONLY)
def answer(spec):
    try:
        fcntl.ioctl(root, 0x4400b503, spec.ljust(1024, b"\0"))
    except OSError as e:
        return errno.errorcode[e.errno]
    return "taken"
print(answer(b"sequence,list=" + 938 * b"x"), answer(b"sequence,ranks=".ljust(950, b"0") + b"1"),
      answer(b"sequence,ranks=".ljust(950, b"0") + b"x"))
PY
expect "longest SPEC" "$(python3 "$T/set.py" "$MNT")" "E2BIG taken EINVAL"
unmount
