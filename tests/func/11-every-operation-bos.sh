#!/usr/bin/env bash
# Every operation of a store on BOS, over a server that checks signatures: objects with odd keys, ranges, listings by
# pages, copies, uploads in parts ended and aborted, deletes one by one and 1000 at a time.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/servers/start.sh"
start_bos --writable
"$SAMPAN_BUILD/tools/object-live" "bos://samples/live" "$BOS_URL" >"$T/operations" || fail "$(grep -v '^ok' "$T/operations")"
at_least "operations" "$(grep -c '^ok' "$T/operations")" 25
stop_bos
start_bos --writable --token t0ken/with+signs=
BCE_SESSION_TOKEN=t0ken/with+signs= "$SAMPAN_BUILD/tools/object-live" "bos://samples/" "$BOS_URL" >"$T/operations" ||
    fail "with a token: $(grep -v '^ok' "$T/operations")"
! BCE_SESSION_TOKEN=t0ken/with+signs= BCE_SECRET_ACCESS_KEY=wrong "$SAMPAN_BUILD/tools/object-live" "bos://samples/" "$BOS_URL" >"$T/operations" 2>&1 ||
    fail "a wrong secret goes"
grep -q "SignatureDoesNotMatch" "$T/operations" || fail "it does not say so: $(cat "$T/operations")"
