#!/usr/bin/env bash
# Checkpoints as frameworks save them (written aside, renamed): the store never has half of one, also large ones.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_store # use_s3
mount_writable "$STORE/run"
"$PYTHON" - "$MNT" <<'PY'
import hashlib, os, sys
folder = sys.argv[1] + "/checkpoints"
os.mkdir(folder)
for epoch in range(2):
    body = hashlib.sha256(b"%d" % epoch).digest() * (20 << 15)  # 20 MiB: in parts
    with open(folder + "/.tmp", "wb") as f:
        for at in range(0, len(body), 1 << 20):
            f.write(body[at:at + (1 << 20)])
        f.seek(0)
        f.write(b"HEADER%02d" % epoch)  # as zip files and pickles do: the beginning last
        f.flush()
        os.fsync(f.fileno())
    os.replace(folder + "/.tmp", folder + "/epoch-%d.pt" % epoch)
    os.path.lexists(folder + "/last") and os.unlink(folder + "/last")
    os.symlink("epoch-%d.pt" % epoch, folder + "/last")
    if epoch:
        os.unlink(folder + "/epoch-%d.pt" % (epoch - 1))
    with open(folder + "/last", "rb") as f:
        assert f.read(8) == b"HEADER%02d" % epoch
PY
expect "in the store at once" "$(keys | tr '\n' ' ')" "run/checkpoints/epoch-1.pt run/checkpoints/last "
stored cat run/checkpoints/epoch-1.pt | cmp - "$MNT/checkpoints/epoch-1.pt" || fail "other bytes in the store"
expect "uploads left behind" "$(stored uploads)" ""
unmount
