# The runtime server, for tests: started on a free port, ended with the test.
#
#   start_serve [OPTIONS…]       starts it for $MNT; sets $PORT; $TOKEN is in $T/token
#   stop_serve [SIGNAL]          ends it and waits
#   ask METHOD PATH [CURL ARGS]  body on stdout, "HTTP_STATUS" in $CODE
#   job_state ID                 its state; wait_job ID STATE

TOKEN=0123456789abcdef-secret
echo "$TOKEN" >"$T/token"
SCHEME=http
serve_pid=

start_serve() {
    : >"$T/log/serve"
    "$S" serve --listen 127.0.0.1:0 --state "$T/serve" --token-file "$T/token" --mount "$MNT" "$@" \
        >>"$T/log/serve" 2>&1 &
    serve_pid=$!
    on_exit "stop_serve KILL"
    until_true 20 grep -q 'sampan serve: listening on port' "$T/log/serve" ||
        fail "serve does not start: $(cat "$T/log/serve")"
    PORT=$(sed -n 's/.*sampan serve: listening on port \([0-9]*\).*/\1/p' "$T/log/serve" | tail -n 1)
}

stop_serve() { # [SIGNAL]
    [ -n "$serve_pid" ] || return 0
    kill -"${1:-TERM}" "$serve_pid" 2>/dev/null || true
    wait "$serve_pid" 2>/dev/null || true
    serve_pid=
}

ask() { # METHOD PATH [CURL ARGS…]
    local method=$1 path=$2
    shift 2
    CODE=$(curl -sS --max-time 300 -o "$T/answer" -w '%{http_code}' -X "$method" \
        -H "Authorization: Bearer ${BEARER-$TOKEN}" "$@" "$SCHEME://127.0.0.1:$PORT$path")
}

expect_code() { # CODE METHOD PATH [CURL ARGS…]
    local want=$1
    shift
    ask "$@"
    [ "$CODE" = "$want" ] || fail "$* gives $CODE, want $want: $(cat "$T/answer")"
}

answer() { # FIELD
    field "$1" <"$T/answer"
}

job_state() { # ID
    ask GET "/v1/jobs/$1"
    answer state
}

wait_job() { # ID STATE
    is_state() { [ "$(job_state "$1")" = "$2" ]; }
    until_true 40 is_state "$1" "$2" || fail "job $1 is $(job_state "$1"), want $2: $(cat "$T/answer")"
}
