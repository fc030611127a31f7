#!/usr/bin/env bash
# The next life has the options of the first, whatever became of their file, variables and folder; and what was set since.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 2 --files 10
mkdir "$T/here"
printf 'memory = 100MiB\nconnections = 7\n' >"$T/here/conf"
on_exit "unmount_quietly '$MNT'"
(cd "$T/here" && SAMPAN_UID=4711 sampan mount "file://$SRC" "$MNT" --config conf --cache "ssd:../cache=1GiB")
rm -r "$T/here"
check() {
    expect "memory" "$(status memory.limit)" $((100 << 20))
    expect "owner" "$(stat -c %u "$MNT/class-000/000001.bin")" 4711
    expect "tier" "$(realpath "$(status cache.tiers.0.dir)")" "$CACHE"
}
check
kill_life
check
sampan set "$MNT" sampler=paddle-distributed,ranks=2,batch-size=4,shuffle=true epoch=3 memory=120MiB
order() { status order | "$PYTHON" -c 'import json, sys; d = json.load(sys.stdin); print(d.get("sampler"), d.get("epoch"))'; }
before=$(order)
echo "$before"
kill_life
expect "memory" "$(status memory.limit)" $((120 << 20))
expect "order" "$(order)" "$before"
"$PYTHON" - "$MNT" <<'PY' # SAMPAN_IOC_SET_EPOCH: what is set through the mount itself is kept too
import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 1 << 30 | 8 << 16 | 0xB5 << 8 | 2, struct.pack("=Q", 5))
PY
before=$(order)
kill_life
expect "order" "$(order)" "$before"
kill -9 "$(life)"
sampan set "$MNT" memory=130MiB # waits for the next life instead of failing
expect "memory" "$(status memory.limit)" $((130 << 20))
same_bytes "$SRC" "$MNT"
unmount
nothing_left
