#!/usr/bin/env bash
# --profile shards with a partition: status counts what of the share is local, in packs and in whole objects alike.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --spec '{"0.tar": 9000001, "1.tar": 9000000, "2.tar": 300}'
part() { [ "$(status partition.cached) $(status partition.cached_bytes)" = "$1" ]; }
whole() { cat "$MNT"/*.tar >"$T/all" && [ "$(find "$CACHE/shards" -name '*.data' | wc -l) $(status shards.filled)" = "3 3" ]; }
mount_set "file://$SRC" --profile shards --partition 0/1
sampan warmup "$MNT" --quiet
part "3 18000301" || fail "warmed: $(status partition.cached) $(status partition.cached_bytes)"
case $(status mode) in passthrough*) until_true 30 whole || fail "no whole objects: $(ls -l "$CACHE/shards")" ;; esac
part "3 18000301" || fail "read: $(status partition.cached) $(status partition.cached_bytes)"
unmount
mount_set "file://$SRC" --profile shards --partition 0/1
until_true 3 part "3 18000301" || fail "mounted again: $(status partition.cached) $(status partition.cached_bytes)"
sampan clear "$MNT" --json >"$T/cleared"
part "0 0" || fail "cleared: $(status partition.cached) $(status partition.cached_bytes)"
