#!/usr/bin/env bash
# The store is down for 3 s (2 minutes with SLOW=1) while files are written and renamed over one another: no writer sees
# an error, and when the store is back it has every byte.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/writable.sh"
need_mount
use_writable_store # use_s3 behind the proxy
gone_s=$([ -n "${SLOW:-}" ] && echo 120 || echo 3)
mount_writable "$STORE/out" --commit background
mkdir "$MNT/before"
sampan flush "$MNT"
ls "$MNT" "$MNT/before" >"$T/looked"
mkdir "$T/model"
faults status=503
(
    end=$((SECONDS + gone_s)) i=0
    exec 9>"$MNT/before/log"
    while [ $SECONDS -lt $end ] || [ $i -lt 12 ]; do # each file, however slowly
        i=$((i + 1))
        echo "line $i" >&9
        head -c $((i % 40 * 1000 + 1)) /dev/urandom >"$T/model/$((i % 6))"
        cp "$T/model/$((i % 6))" "$MNT/before/temp"
        mv "$MNT/before/temp" "$MNT/before/$((i % 6))"
        sleep 0.05
    done
    echo $i
) >"$T/written" 2>"$T/writer.err" &
writer=$!
wait $writer || fail "a writer saw an error: $(cat "$T/writer.err")"
[ ! -s "$T/writer.err" ] || fail "a writer saw an error: $(cat "$T/writer.err")"
seq -f 'line %g' "$(cat "$T/written")" >"$T/model/log"
diff -r "$T/model" "$MNT/before" || fail "what was written reads otherwise"
at_least "pending files" "$(pending files)" 6
faults
SAMPAN_TIMEOUT=170 sampan flush "$MNT"
expect "pending" "$(pending files)" 0
mkdir "$T/stored"
for name in "$T"/model/*; do
    stored cat "out/before/${name##*/}" >"$T/stored/${name##*/}"
done
diff -r "$T/model" "$T/stored" || fail "the store has something else"
expect "objects" "$(keys | wc -l)" "$(find "$T/model" -type f | wc -l)"
unmount
