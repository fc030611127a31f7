#!/usr/bin/env bash
# The limit holds for everything below a tier's folder: the catalog that was just written there, and
# the whole objects of --profile shards, while 8 readers fill it.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 40 --files 50 --size 4000..20000
"$PYTHON" "$SAMPAN_TESTS/lib/make-set.py" "$SRC" \
    --spec '{"s/0.tar": 5000000, "s/1.tar": 4000000, "s/2.tar": 3000000, "s/3.tar": 2500000}'
limit=$((10 << 20))
# What was there in two looks in a row was there at one moment in between.
cat >"$T/watch.py" <<'PY'
import os, sys
folder, stop = sys.argv[1:]
def look():
    found = {}
    for at, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(at, name)
            try:
                found[path] = os.lstat(path).st_size
            except OSError:
                pass
    return found
most, last = 0, {}
while not os.path.exists(stop):
    now = look()
    most = max(most, sum(min(size, last[path]) for path, size in now.items() if path in last))
    last = now
print(most)
PY
for profile in samples shards; do
    mount_set "file://$SRC" --cache "ssd:$CACHE-$profile=$limit" --free-space 0 --profile $profile
    rm -f "$T/stop"
    "$PYTHON" "$T/watch.py" "$CACHE-$profile" "$T/stop" >"$T/most" &
    watcher=$!
    for _ in 1 2; do
        find "$MNT" -type f -print0 | shuf -z --random-source=<(yes) | xargs -0 -P 8 -n 50 cat >/dev/null
        drop_pages
    done
    same_bytes "$SRC" "$MNT"
    touch "$T/stop"
    wait $watcher
    echo "$profile: most bytes below the folder: $(cat "$T/most") of $limit"
    at_most "$profile: bytes below the tier's folder" "$(cat "$T/most")" "$limit"
    at_least "$profile: bytes at all" "$(cat "$T/most")" $((limit / 2))
    at_most "$profile: used" "$(status cache.tiers.0.used)" "$limit"
    unmount
done
nothing_left
