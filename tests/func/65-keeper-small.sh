#!/usr/bin/env bash
# The keeper: less than 2 MiB resident, next to no CPU, no file open but what it holds; without it a mount says so.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/keeper.sh"
need_mount
make_set --classes 1 --files 5
mount_set "file://$SRC"
keeper=$(keeper)
rss=$(awk '/^VmRSS:/ { print $2 }' "/proc/$keeper/status")
if [ -z "$(nm "$(dirname "$S")/sampan-keeper" | grep -m1 __asan_)" ] && [ -z "$(nm "$(dirname "$S")/sampan-keeper" | grep -m1 __tsan_)" ]; then
    at_most "resident KiB" "$rss" 2047
    ! ldd "$(dirname "$S")/sampan-keeper" 2>/dev/null | has "=>" || fail "it needs a library"
fi
ticks() { awk '{ print $14 + $15 }' "/proc/$keeper/stat"; }
is_idle() {
    local before
    before=$(ticks)
    sleep 3
    [ $(($(ticks) - before)) -le 1 ]
}
in_one_of_five is_idle || fail "it works though nothing happens" # a mount may be begun still
ls -l "/proc/$keeper/fd"
expect "descriptors" "$(ls "/proc/$keeper/fd" | wc -l)" 10
expect "standard streams" "$(readlink "/proc/$keeper/fd/"{0,1,2} | sort -u)" /dev/null
unmount
mkdir "$T/alone"
cp "$S" "$T/alone/sampan"
S=$T/alone/sampan
sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" 2>"$T/err"
grep -q "keeper" "$T/err" || fail "it does not say that there is no keeper: $(cat "$T/err")"
expect "keeper_pid" "$(status keeper_pid)" 0
unmount
nothing_left
