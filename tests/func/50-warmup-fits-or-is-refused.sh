#!/usr/bin/env bash
# Around the size that a set needs, a warmup that begins keeps all of it: what cannot fit is refused before its first
# byte. What small samples take beside their bytes is counted (heads, padding, journals, the index as it grows), and
# what large ones do (the page with which they begin).
. "$SAMPAN_TESTS/lib/common.sh"

warmups() { # FROM STEP : cache sizes upwards until one is large enough
    local size=$1 code refused=0
    while :; do
        code=0
        rm -rf "$CACHE"
        sampan warmup "file://$SRC" --cache "ssd:$CACHE=$size" --free-space 0 --quiet >"$T/out" 2>&1 || code=$?
        [ "$code" != 0 ] || break
        [ "$code" = 4 ] || fail "$size bytes: exit code $code: $(cat "$T/out")"
        grep -q "the cache has room for" "$T/out" || fail "$size bytes: $(cat "$T/out")"
        [ -z "$(find "$CACHE" -name '*.pack')" ] || fail "$size bytes: something was fetched before it was refused"
        refused=$((refused + 1))
        size=$((size + $2))
    done
    echo "enough: $size bytes"
    at_least "sizes that were refused" "$refused" 1
}

mkdir -p "$SRC"
head -c 3940000 /dev/urandom | split -b 985 -a 4 - "$SRC/small-" # with its head a byte more than a multiple of 64
warmups 4340000 40000
rm -r "$SRC"
mkdir -p "$SRC"
head -c 31457280 /dev/urandom | split -b 524288 - "$SRC/large-"
warmups 31457280 60000
