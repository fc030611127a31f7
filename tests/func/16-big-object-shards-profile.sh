#!/usr/bin/env bash
# --profile shards: big files read in slices give right bytes, before and after they are complete here.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --spec '{"s/0.tar": 13000007, "s/1.tar": 9000000, "s/small.idx": 777}'
mount_set "file://$SRC" --profile shards
"$PYTHON" - "$SRC/s" "$MNT/s" <<'PY'
import os, random, sys
src, mnt = sys.argv[1:]
rng = random.Random(3)
for _ in range(3):
    for name in ("0.tar", "1.tar", "small.idx"):
        want = open(f"{src}/{name}", "rb").read()
        fd = os.open(f"{mnt}/{name}", os.O_RDONLY)
        for _ in range(30):
            off, n = rng.randrange(len(want)), rng.choice((100, 65536, 1 << 20))
            assert os.pread(fd, n, off) == want[off:off + n], (name, off, n)
        os.close(fd)
PY
same_tree "$SRC" "$MNT"
expect "profile" "$(status profile)" shards
# They are told as cached, once each, in this mount as in the next one, which clears them. What comes into packs besides
# goes when a whole object is closed, which it is read from.
all_told() { [ "$(status cache.samples) $(status cache.bytes)" = "3 22000784" ]; }
told_when_read() { cat "$MNT"/s/* >"$T/all" && all_told; }
until_true 30 told_when_read || fail "cached: $(sampan status "$MNT" --json)"
sampan warmup "$MNT" --quiet
until_true 30 told_when_read || fail "cached twice: $(sampan status "$MNT" --json)"
unmount
mount_set "file://$SRC" --profile shards
all_told || fail "cached before: $(sampan status "$MNT" --json)"
at_least "cleared" "$(sampan clear "$MNT" --json | field samples)" 3
expect "left" "$(status cache.samples)" 0
same_tree "$SRC" "$MNT"
unmount
# Cleared, the folder holds none of them any more.
[ -s "$CACHE/shards/$(ls "$CACHE/shards" | grep -m 1 data)" ] || fail "no whole object lies there"
echo mine >"$CACHE/shards/1.mine"
sampan clear "$CACHE" --json >"$T/cleared"
at_least "bytes" "$(field bytes <"$T/cleared")" 22000000
expect "left" "$(ls "$CACHE/shards")" 1.mine
