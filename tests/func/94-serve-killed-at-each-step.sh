#!/usr/bin/env bash
# The runtime server is killed before the n-th write, sync, rename or unlink that a job makes it do, in its own
# state or in the source. Asked again under the same id after the restart, the job ends right: what it names is gone
# once, all else is there. (Warmups: 94-serve-killed; syncs: 92-sync-killed.) A few n of each type of job; SLOW=1 tries
# every one.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
. "$SAMPAN_TESTS/lib/broken-disk.sh"
need_mount
need_tracing
need_command getfattr
make_set --classes 2 --files 8 --size 20000
touch "$SRC"/*/*.bin
touch -d 2001-01-01 "$SRC"/class-000/00000[012].bin
mv "$SRC" "$T/master"
cp -a "$T/master" "$SRC"
mount_set "file://$SRC"

declare -A OPTIONS=(
    [clear]='{"paths":["class-000"]}' [scan]='{}'
    [evict]='{"to":160000}' [evict-store]='{"older_than_s":86400,"store":true}' [rmr]='{"paths":["class-000"]}')
cached() { # FOLDER : how many of its samples the cache has
    getfattr --absolute-names -n user.sampan.cached "$MNT/$1"/* | grep -c '="yes"'
}
prepare() { # JOB
    rm -rf "$SRC" "$T/serve"
    mkdir "$T/serve"
    cp -a "$T/master" "$SRC"
    sampan scan "$MNT" --quiet >/dev/null
    sampan clear "$MNT" >/dev/null
    case $1 in
    clear | evict) sampan warmup "$MNT" --quiet ;;
    scan) echo new >"$SRC/class-001/new.bin" ;;
    esac
}
gone() { # FILES… : of the source, into the trash, each once, and nothing else
    printf '%s\n' "$@" | sort >"$T/gone"
    (cd "$SRC/.trash" && find . -type f | sed 's,^\./[^/]*/,,' | sort) >"$T/got"
    cmp -s "$T/gone" "$T/got" || fail "$AT: in the trash: $(cat "$T/got")"
    (cd "$T/master" && find . -type f | sed 's,^\./,,' | grep -vxFf "$T/gone" | sort) >"$T/want"
    (cd "$SRC" && find . -path ./.trash -prune -o -type f -print | sed 's,^\./,,' | sort) >"$T/got"
    cmp -s "$T/want" "$T/got" || fail "$AT: in the source: $(cat "$T/got")"
    (cd "$MNT" && find . -type f | sed 's,^\./,,' | sort) >"$T/got"
    cmp -s "$T/want" "$T/got" || fail "$AT: the mount shows $(cat "$T/got")"
}
right() { # JOB
    case $1 in
    rmr) gone class-000/00000{0..7}.bin ;;
    evict-store) gone class-000/00000{0..2}.bin ;;
    *) (cd "$T/master" && find . -type f -exec cmp {} "$SRC/{}" \;) || fail "$AT: the source has changed" ;;&
    clear) expect "$AT: cached" "$(cached class-000) $(cached class-001)" "0 8" ;;
    evict) [ "$(status cache.bytes)" -le 160000 ] && at_least "$AT: cached" "$(status cache.samples)" 6 ;;
    scan) expect "$AT: the new sample" "$(cat "$MNT/class-001/new.bin")" new ;;
    esac
}
serve_watched() { # MEDDLE OPTIONS…
    rm -f "$T/log/serve" "$T/meddle.err" "$T/armed"
    : >"$T/log/serve"
    "$MEDDLE" --below "$T/serve" --below "$SRC" --calls write,sync,rename,unlink,make,size --while "$T/armed" --timeout 600 "$@" \
        -- "$S" serve --listen 127.0.0.1:0 --state "$T/serve" --token-file "$T/token" --mount "$MNT" >>"$T/log/serve" 2>>"$T/meddle.err" &
    serve_pid=$!
    until_true 20 grep -qs 'sampan serve: listening on port' "$T/log/serve" "$T/meddle.err" || fail "serve does not start: $(cat "$T/log/serve" "$T/meddle.err")"
    PORT=$(sed -n 's/.*sampan serve: listening on port \([0-9]*\).*/\1/p' "$T/log/serve" "$T/meddle.err" | tail -n 1)
    : >"$T/armed"
}
post() { # JOB
    ask POST /v1/jobs -d "{\"id\":\"j\",\"type\":\"${1%-store}\",\"options\":${OPTIONS[$1]}}"
}
over() { ! [ -d "/proc/$serve_pid" ] || case $(job_state j 2>/dev/null) in succeeded | failed | cancelled) ;; *) false ;; esac; }
on_exit "stop_serve KILL"

points() { # TOTAL N : one in each N-th of them
    local i
    [ -z "${SLOW:-}" ] || { seq "$1"; return; }
    for i in $(seq "$2"); do echo $(((i - 1) * $1 / $2 + 1 + RANDOM % ($1 / $2))); done
}
for job in clear scan evict evict-store rmr; do
    AT="$job, not killed"
    prepare $job
    serve_watched --nth 0
    post $job
    wait_job j succeeded
    kill "$(pgrep -P "$serve_pid")"
    wait "$serve_pid" || fail "$AT: $(cat "$T/meddle.err")"
    right $job
    total=$(sed -n 's/^meddle: {"seen":\([0-9]*\).*/\1/p' "$T/meddle.err")
    at_least "calls seen of $job" "$total" 5
    tries=2
    case $job in rmr | evict-store) tries=3 ;; esac
    for n in $(points "$total" $tries); do
        prepare $job
        serve_watched --nth "$n" --kill
        post $job 2>/dev/null || true
        until_true 40 over || fail "$job: neither killed at $n nor over: $(cat "$T/answer")"
        AT="$job, killed at $n of $total ($(grep -o '"hit":"[^"]*"' "$T/meddle.err" || true))"
        rm -f "$T/armed"
        pkill -KILL -P "$serve_pid" || true
        wait "$serve_pid" || fail "$AT: $(cat "$T/meddle.err")"
        start_serve
        post $job
        case $CODE in 200 | 201) ;; *) fail "$AT: asked again: $CODE $(cat "$T/answer")" ;; esac
        until_true 40 over || fail "$AT: it does not end: $(cat "$T/answer")"
        expect "$AT: state and error" "$(job_state j) $(answer error)" "succeeded "
        ask GET /v1/jobs
        expect "$AT: jobs" "$(grep -o '"id":' "$T/answer" | wc -l)" 1
        stop_serve
        right $job
    done
    echo "$job: $total calls"
done
unmount
