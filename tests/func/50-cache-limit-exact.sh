#!/usr/bin/env bash
# The files below a tier's folder never exceed its limit, under parallel fill, sampled all the while.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 4 --files 30 --size 100000..400000
limit=$((12 << 20))
mount_set "file://$SRC" --cache "ssd:$CACHE=$limit" --free-space 0
watch_size() {
    local most=0 now
    while [ ! -e "$T/stop" ]; do
        now=$(find "$CACHE" -type f -printf '%s\n' 2>/dev/null | awk '{ s += $1 } END { print s + 0 }')
        [ "$now" -le "$most" ] || most=$now
        echo "$most" >"$T/most"
    done
}
watch_size &
watcher=$!
for _ in 1 2; do
    find "$MNT" -type f -print0 | shuf -z --random-source=<(yes) | xargs -0 -P 8 -n 5 cat >/dev/null
    drop_pages
done
touch "$T/stop"
wait $watcher
echo "most bytes below the folder: $(cat "$T/most") of $limit"
at_most "bytes below the tier's folder" "$(cat "$T/most")" "$limit"
at_most "used" "$(status cache.tiers.0.used)" "$limit"
at_least "bytes cached at all" "$(status cache.bytes)" $((limit / 4))
same_bytes "$SRC" "$MNT"
unmount
