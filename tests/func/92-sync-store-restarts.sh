#!/usr/bin/env bash
# A store that is away for seconds, as one that restarts, fails no object of what was under way; a cancel still works at once.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/s3mem.sh"
make_set --classes 2 --files 20 --size 200..3000
start_s3mem
store "/_set?late=100" >"$T/set"

# Runs it, and takes the store away in its midst. In that time a whole request was once tried five times in vain, and a get ten
# times, if chance would have it.
over_a_restart() { # COUNT CMD…
    local count=$1 had
    shift
    had=$(store "/_count/$count")
    "$@" >"$T/out" 2>"$T/err" &
    local pid=$!
    until_true 20 eval '[ "$(store /_count/$count)" -ge $((had + 3)) ]' || fail "it does not begin: $(cat "$T/err")"
    store "/_set?down=1" >"$T/set"
    sleep 8
    store "/_set?down=0" >"$T/set"
    wait $pid || fail "$*: $(cat "$T/err") $(cat "$T/out")"
}

over_a_restart PUT sampan sync "file://$SRC" s3://b/up --threads 2 --json
expect "copied, failed" "$(field copied <"$T/out") $(field failed <"$T/out")" "40 0"
over_a_restart GET sampan sync s3://b/up "file://$T/down" --threads 2 --json
expect "copied, failed" "$(field copied <"$T/out") $(field failed <"$T/out")" "40 0"
same_bytes "$SRC" "$T/down"
over_a_restart COPY sampan sync s3://b/up s3://b/other --threads 2 --json
expect "copied, failed" "$(field copied <"$T/out") $(field failed <"$T/out")" "40 0"

store "/_set?down=1" >"$T/set"
"$S" sync "file://$SRC" s3://b/never >"$T/out" 2>"$T/err" && fail "there is no store"
store "/_set?down=0" >"$T/set"
"$S" sync "file://$SRC" s3://b/more --threads 2 >"$T/out" 2>"$T/err" &
pid=$!
had=$(store /_count/PUT)
until_true 20 eval '[ "$(store /_count/PUT)" -ge $((had + 3)) ]' || fail "it does not begin: $(cat "$T/err")"
store "/_set?down=1" >"$T/set"
sleep 2
kill -INT $pid
# The store would be waited for a minute.
until_true 5 eval '! command kill -0 $pid' || fail "it waits for the store: $(cat "$T/err")"
code=0
wait $pid || code=$?
expect "exit code" "$code" 130
