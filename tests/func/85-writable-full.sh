#!/usr/bin/env bash
# A full stage: the writer gets ENOSPC at write, what it wrote before is whole, and room comes back when it is stored.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_writable_store # use_s3 behind the proxy
mount_writable "$STORE/out" --commit background --cache "ssd:$CACHE=24MiB"
ls "$MNT" >"$T/looked"
faults "status=503"
"$PYTHON" - "$MNT" <<'PY'
import errno, os, sys
for i in range(100):
    path = sys.argv[1] + "/f%d" % i
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        os.write(fd, bytes([i]) * (1 << 20))
    except OSError as e:
        assert e.errno == errno.ENOSPC, e
        os.close(fd)
        os.unlink(path)
        print(i, "files before it was full")
        assert 8 <= i <= 24, i
        break
    os.close(fd)
else:
    sys.exit("never full")
PY
at_most "bytes of the cache folder" "$(du -sb "$CACHE" | cut -f1)" $((25 << 20))
faults
sampan flush "$MNT"
dd if=/dev/zero of="$MNT/more" bs=1M count=10 status=none || fail "still full after all was stored"
unmount
for f in 0 5 7; do
    expect "bytes of f$f" "$(stored cat "out/f$f" | wc -c)" $((1 << 20))
done
