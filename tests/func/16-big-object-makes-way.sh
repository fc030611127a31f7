#!/usr/bin/env bash
# --profile shards: whole objects that nobody asked to keep make way for a warmup; what it brought goes for no other, and
# is the last that evict takes. For what is just read nothing goes that was read within the hour, nor what is pinned.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --spec '{"a.tar": 13000000, "b.tar": 13000001, "c.tar": 13000002, "kept.tar": 20000000}'
make_set --spec "{$(for i in {0..9}; do echo "\"x$i.tar\": 310000$i,"; done) \"small.tar\": 5000}"
mount_set "file://$SRC" --profile shards --cache "ssd:$CACHE=54M" --free-space 0
case $(status mode) in passthrough*) ;; *) skip "no passthrough here: $(status mode)" ;; esac
is_whole() { [ -n "$(find "$CACHE/shards" -name '*.data' -size "$1c")" ]; }
whole() { cmp "$SRC/$1.tar" "$MNT/$1.tar" && is_whole "$2"; }
read_whole() { # NAME SIZE
    until_true 5 whole "$1" "$2" || fail "$1.tar is no whole object: $(ls -l "$CACHE/shards")"
}
three() { cat "$MNT"/[abc].tar >"$T/read" && [ "$(status cache.bytes)" = 39000003 ]; }
until_true 5 three || fail "not all of three: $(sampan status "$MNT" --json)"
for i in 0 1 2; do is_whole 1300000$i || fail "not whole: $(ls -l "$CACHE/shards")"; done
exec 5<"$MNT/b.tar" # being read, it stays
sampan warmup "$MNT" kept.tar --dry-run --quiet
expect "bytes, of a dry run" "$(status cache.bytes)" 39000003
sampan warmup "$MNT" kept.tar --quiet
at_least "bytes" "$(status cache.bytes)" 33000001
cmp "$SRC/b.tar" - <&5
exec 5<&-
sampan evict "$MNT" --to 21M --quiet
at_least "bytes: what was warmed up goes last" "$(status cache.bytes)" 20000000
read_whole kept 20000000
for i in {0..8}; do read_whole x$i 310000$i; done
cmp "$SRC/x9.tar" "$MNT/x9.tar" # more than whole objects may take
for i in {0..8}; do is_whole 310000$i || fail "x$i.tar made way: $(ls -l "$CACHE/shards")"; done
unmount
touch -d '2 hours ago' "$CACHE"/shards/*.sums
mount_set "file://$SRC" --profile shards --cache "ssd:$CACHE=54M" --free-space 0
read_whole x9 3100009
is_whole 20000000 || fail "what was warmed up made way: $(ls -l "$CACHE/shards")"
sampan evict "$MNT" --to 21M --json >"$T/evicted"
is_whole 20000000 || fail "what was warmed up went first: $(ls -l "$CACHE/shards")"
at_most "bytes" "$(status cache.bytes)" 21000000
same_tree "$SRC" "$MNT"
sampan evict "$MNT" --to 0 --json >"$T/evicted"
expect "bytes" "$(status cache.bytes)" 0
same_tree "$SRC" "$MNT"
