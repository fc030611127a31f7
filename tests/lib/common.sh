# Sourced by every script of tests/func. Gives folders, servers, mounts and comparisons; whatever a
# script starts through these helpers is ended when it exits, however it exits.
#
#   $T the test's folder · $SRC its samples · $MNT its mount point · $CACHE its cache folder
#   sampan ARGS…             the program, never longer than 300 s
#   mount_set SET [OPTIONS]  mounts at $MNT with the cache in $CACHE; unmount [MOUNT]
#   refused CODE TEXT CMD…   the command must exit with CODE and one line on stderr that holds TEXT
#   same_tree A B            every path, size and byte equal
#   status FIELD             a field of `sampan status --json`: status reads.store
#   until_true SECONDS CMD…  polls until CMD succeeds; gives up after ten times what takes so long at most when quiet
set -euo pipefail

S="$SAMPAN"
export SAMPAN_KEEPER_HANG_MS=120000 # what waits so long for a processor has not hung
export SAMPAN_KEEPER_TRIAL_MS=${SAMPAN_KEEPER_TRIAL_MS:-600000} # what is degraded stays so, or a slow test would find it healed
cleanups=()

on_exit() {
    cleanups=("$1" "${cleanups[@]}")
}

# A child of this shell, a process that carries this test's token, or a child of one (a helper has no environment).
is_ours() { # PID
    local parent
    parent=$(awk '/^PPid:/ { print $2 }' "/proc/$1/status" 2>/dev/null)
    [ "$parent" = $$ ] || has_token "$1" || has_token "$parent"
}

has_token() { # PID
    grep -qzx "SAMPAN_TEST_TOKEN=$SAMPAN_TEST_TOKEN" "/proc/$1/environ" 2>/dev/null
}

run_cleanups() {
    local code=$? command
    set +e
    trap - EXIT TERM INT
    kill() { # long after a process has ended its number may be that of another test's daemon
        local word words=()
        for word in "$@"; do
            case $word in
            [0-9]*) is_ours "$word" || continue ;;
            esac
            words+=("$word")
        done
        command kill "${words[@]}"
    }
    for command in "${cleanups[@]}"; do
        eval "$command" >/dev/null 2>&1
    done
    exit "$code"
}
trap run_cleanups EXIT
trap 'exit 143' TERM INT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

skip() {
    echo "SKIP: $*"
    exit 77
}

sampan() {
    timeout -k 5 "${SAMPAN_TIMEOUT:-300}" "$S" "$@"
}

make_set() { # OPTIONS… : fills $SRC
    "$PYTHON" "$SAMPAN_TESTS/lib/make-set.py" "$SRC" "$@"
}

until_true() { # SECONDS CMD…
    local give_up=$((SECONDS + 10 * $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $give_up ] || return 1
        sleep 0.05
    done
}

# --- what the machine offers ------------------------------------------------------------------------

need_root() {
    [ "$(id -u)" = 0 ] || skip "needs root: $1"
}

need_mount() {
    [ -c /dev/fuse ] || skip "no /dev/fuse here"
    if ! [ -w /dev/fuse ]; then
        command -v fusermount3 >/dev/null || skip "/dev/fuse is not writable and fusermount3 is missing"
    fi
    [ "$(id -u)" != 0 ] || unshare -m true 2>/dev/null || skip "this container may not mount"
}

# Runs the script again in a mount namespace of its own, whose changes stay there. Copies of other tests' mounts
# would hold those up after their end: they go, some along with another.
own_namespace() {
    [ -n "${OWN_NAMESPACE:-}" ] || OWN_NAMESPACE=1 exec unshare -m "$@" bash "$0"
    mount --make-rprivate /
    leave_foreign_mounts
}

leave_foreign_mounts() {
    local m
    awk '/ - fuse\.sampan / { print $5 }' /proc/self/mountinfo | while read -r m; do umount -l "$m" 2>/dev/null || true; done
}

need_command() {
    command -v "$1" >/dev/null || skip "no $1 here"
}

# The loader's library and a Python that has numpy: $NUMPY_PYTHON.
use_loader() {
    local python
    export SAMPAN_LOADER_LIBRARY=$SAMPAN_BUILD/lib/libsampan-loader.so.0 PYTHONPATH=$SAMPAN_TESTS/../python
    for python in "$PYTHON" "${VENV:-}/bin/python" /usr/bin/python3; do
        NUMPY_PYTHON=$python
        "$python" -B -c 'import ctypes, numpy, sys; ctypes.CDLL(sys.argv[1])' "$SAMPAN_LOADER_LIBRARY" 2>/dev/null && return
    done
    skip "no Python with numpy that takes the loader's library (make deps)"
}

# --- mounts -----------------------------------------------------------------------------------------

is_mounted() { # in mountinfo a space is \040
    m=${1// /\\040} awk '$5 == ENVIRON["m"] { found = 1 } END { exit !found }' /proc/self/mountinfo
}

mount_set() { # SET [OPTIONS…]
    local set=$1 args=()
    shift
    case " $* " in *" --cache "*) ;; *) args=(--cache "ssd:$CACHE=1GiB") ;; esac
    on_exit "unmount_quietly '$MNT'"
    sampan mount "$set" "$MNT" "${args[@]}" "$@"
    is_mounted "$MNT" || fail "mount says it worked, yet $MNT is not mounted"
}

unmount() { # [MOUNT]
    sampan umount "${1:-$MNT}"
    ! is_mounted "${1:-$MNT}" || fail "still mounted after umount"
    until_true 20 no_daemon || fail "the daemon outlives the mount: $(pgrep -af "$S mount" || true)"
}

unmount_quietly() {
    is_mounted "$1" || return 0
    sampan umount "$1" || sampan umount --lazy "$1" || umount -l "$1"
    until_true 10 no_daemon
}

# Pids of this test's own daemons: they carry its token.
daemons() {
    local p
    for p in /proc/[0-9]*; do
        [ "$p/exe" -ef "$S" ] || continue # no fork: there may be hundreds of processes
        has_token "${p#/proc/}" || continue
        echo "${p#/proc/}"
    done
}

keepers() {
    S=$(dirname "$(readlink -f "$S")")/sampan-keeper daemons
}

no_daemon() {
    [ -z "$(daemons)$(keepers)" ]
}

daemon_pid() {
    status pid
}

# --- asking -----------------------------------------------------------------------------------------

field() { # FIELD <JSON : reads.store, cache.tiers.0.used
    "$SAMPAN_BUILD/tools/json-field" "$1"
}

status() { # FIELD
    sampan status "$MNT" --json | field "$1"
}

# As grep -q, but it reads all: who writes into it is not ended by a pipe that nobody reads, which would be a failure.
has() { # OPTIONS and PATTERN of grep
    local text
    text=$(cat)
    grep -q "$@" <<<"$text"
}

expect() { # WHAT GOT WANT
    [ "$2" = "$3" ] || fail "$1: got '$2', want '$3'"
}

at_least() { # WHAT GOT MINIMUM
    are_in_order "$3" "$2" || fail "$1: got '$2', want at least $3"
}

at_most() { # WHAT GOT MAXIMUM
    are_in_order "$2" "$3" || fail "$1: got '$2', want at most $3"
}

are_in_order() { # A B : two numbers; what could not be had at all is none, and not less than any
    awk -v a="$1" -v b="$2" 'BEGIN { n = "^-?[0-9.]+(e[-+]?[0-9]+)?$"; exit !(a ~ n && b ~ n && a <= b) }'
}

# One line on stderr with the text; CODE and TEXT are extended regular expressions.
refused() { # CODE TEXT CMD…
    local want=$1 text=$2 code=0 lines
    shift 2
    "$@" >"$T/refused.out" 2>"$T/refused.err" || code=$?
    lines=$(grep -c . "$T/refused.err" || true)
    cat "$T/refused.err"
    [[ $code =~ ^${want}$ ]] || fail "exit code of $*: got $code, want $want"
    expect "lines on stderr" "$lines" 1
    grep -Eqi -- "$text" "$T/refused.err" || fail "the message does not say '$text'"
    grep -q "^sampan" "$T/refused.err" || fail "the message does not name the program"
}

nothing_left() { # no mount, no daemon, nothing registered, no temporary file
    ! is_mounted "$MNT" || fail "a mount was left behind"
    until_true 10 no_daemon || fail "a process was left behind: $(daemons)"
    [ -z "$(find "$SAMPAN_RUN_DIR" -type f ! -name '*.lock' 2>/dev/null)" ] || fail "still registered: $(ls "$SAMPAN_RUN_DIR")"
    [ -z "$(find "$TMPDIR" -mindepth 1)" ] || fail "temporary files: $(find "$TMPDIR" -mindepth 1)"
}

# --- comparing --------------------------------------------------------------------------------------

listing() { # DIR : type, size, mtime and path of everything below it, names as bytes
    (cd "$1" && find . -mindepth 1 \( -type d -printf 'd %P\0' -o -printf 'f %s %Ts %P\0' \) | LC_ALL=C sort -z)
}

sums() { # DIR
    (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum -z)
}

same_bytes() { # A B
    cmp <(sums "$1") <(sums "$2") || fail "bytes of $1 and $2 differ"
}

same_tree() { # A B
    cmp <(listing "$1") <(listing "$2") || fail "listings of $1 and $2 differ"
    same_bytes "$1" "$2"
}

# Takes the pages of one tree out of the page cache, so that reads reach the owner. Not drop_caches, which
# would take them from the tests that run beside this one as well.
drop_pages() { # [DIR]
    "$PYTHON" -c '
import os, sys
for folder, _, names in os.walk(os.fsencode(sys.argv[1])):
    for name in names:
        fd = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)' "${1:-$MNT}"
}

# The kernel takes pages of its cache back when it likes, and some machines (DAMON's proactive reclaim) do so all
# the time: a page that is asked for again in one round proves nothing. One that our own doing costs is missing in
# each, so a claim about the page cache is made of the best of five rounds.
in_one_of_five() { # CMD…
    local round
    for round in 1 2 3 4 5; do
        "$@" && return
        echo "round $round: not so"
    done
    return 1
}

# --- servers ----------------------------------------------------------------------------------------

# The shared moto with signature checking, and a bucket of the test's own: $BUCKET, s3://$BUCKET/.
use_s3() {
    [ -n "${MOTO_URL:-}" ] || skip "moto is not there (make venv)"
    export AWS_ENDPOINT_URL=$MOTO_URL AWS_ACCESS_KEY_ID=$MOTO_KEY AWS_SECRET_ACCESS_KEY=$MOTO_SECRET AWS_REGION=us-east-1
    BUCKET="t-$(echo "$SAMPAN_TEST_TOKEN" | cut -c1-12)"
    s3 make "$BUCKET"
}

s3_names() { # removes from $SRC what an S3 key (UTF-8) or moto (no line breaks) cannot hold
    rm -f "$SRC"/odd/line* "$SRC"/odd/bytes-*
}

s3() { # VERB ARGS… (tests/lib/s3.py), straight to the store, past any proxy
    AWS_ENDPOINT_URL=${MOTO_OPEN_URL:-$MOTO_URL} "$SAMPAN_BUILD/tools/s3" "$S3_SERVED" "$@"
}

use_open_s3() { # a moto of the test's own that checks nothing: for anonymous access
    [ -x "$VENV/bin/moto_server" ] || skip "moto is not there (make venv)"
    local port
    port=$(free_port)
    "$VENV/bin/moto_server" -H 127.0.0.1 -p "$port" >"$T/log/moto-open" 2>&1 &
    on_exit "kill -9 $!; wait $!"
    until_true 30 curl -s -o "$T/moto-up" "http://127.0.0.1:$port/" || fail "moto does not answer"
    export MOTO_OPEN_URL="http://127.0.0.1:$port" AWS_ENDPOINT_URL="http://127.0.0.1:$port"
}

# Below those that the kernel hands out: else a connection of anybody may have it before the server that it is meant for.
free_port() {
    "$PYTHON" -c '
import random, socket
with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
    below = int(f.read().split()[0])
while True:
    try:
        s = socket.socket()
        s.bind(("127.0.0.1", random.randrange(10000, below) if below > 20000 else 0))
        print(s.getsockname()[1])
        break
    except OSError: # somebody has it
        pass'
}

# nginx over $SRC with index pages and ranges: $HTTP_URL; its access log is $T/log/nginx.access.
start_nginx() { # [NGINX LINES for the location]
    need_command nginx
    local port
    port=$(free_port)
    cat >"$T/nginx.conf" <<CONF
daemon off; pid $T/nginx.pid; error_log $T/log/nginx.error; worker_processes 1;
$([ "$(id -u)" != 0 ] || echo "user root;")
events { worker_connections 512; }
http {
    log_format store '\$request_method \$request_uri \$http_range \$status \$body_bytes_sent';
    access_log $T/log/nginx.access store; etag on; sendfile on; keepalive_requests 100000;
    client_body_temp_path $T/ng1; proxy_temp_path $T/ng2; fastcgi_temp_path $T/ng3; uwsgi_temp_path $T/ng4; scgi_temp_path $T/ng5;
    server { listen 127.0.0.1:$port; location / { root $SRC; autoindex on; autoindex_exact_size on; ${1:-} } }
}
CONF
    nginx -p "$T" -c "$T/nginx.conf" 2>>"$T/log/nginx.error" &
    NGINX_PID=$!
    on_exit "kill $NGINX_PID; wait $NGINX_PID"
    HTTP_PORT=$port
    HTTP_URL="http://127.0.0.1:$port"
    until_true 20 curl -s -o "$T/nginx-up" "$HTTP_URL/" || fail "nginx does not answer"
    : >"$T/log/nginx.access"
}

stop_nginx() {
    kill "$NGINX_PID"
    wait "$NGINX_PID" 2>/dev/null || true
}

# proxy.py before a server: PROXY_URL; `faults 'RULE'…` sets its rules; log: $T/log/proxy.access.
start_proxy() { # URL
    local to=${1#http://}
    : >"$T/proxy.rules"
    "$PYTHON" "$SAMPAN_TESTS/servers/proxy.py" --to "${to%/}" --rules "$T/proxy.rules" \
        --log "$T/log/proxy.access" --ready "$T/proxy.port" 2>"$T/log/proxy.err" &
    PROXY_PID=$!
    on_exit "kill -9 $PROXY_PID; wait $PROXY_PID"
    until_true 20 test -f "$T/proxy.port" || fail "the proxy does not start"
    PROXY_URL="http://127.0.0.1:$(cat "$T/proxy.port")"
}

stop_proxy() {
    kill -9 "$PROXY_PID"
    wait "$PROXY_PID" 2>/dev/null || true
}

faults() { # RULE…
    printf '%s\n' "$@" >"$T/proxy.rules.new"
    mv "$T/proxy.rules.new" "$T/proxy.rules"
}

# An S3 bucket filled from $SRC, reached through the proxy: the usual start of a fault test.
use_s3_proxy() { # [PREFIX/]
    use_s3
    s3_names
    s3 put "$BUCKET" "$SRC" "${1:-}"
    start_proxy "$MOTO_URL"
    export AWS_ENDPOINT_URL=$PROXY_URL
}

gets() { # of objects, by the proxy's log; an optional word of the key
    grep -c "^GET /[^?]*${1:-}[^?]* .*" "$T/log/proxy.access" || true
}

# A manifest of all of $SRC beside its samples: path, size, mtime, SHA-256, separated by tabs.
write_manifest() {
    (cd "$SRC" && find . -type f ! -name manifest.tsv -printf '%P\n' | LC_ALL=C sort | while IFS= read -r path; do
        printf '%s\t%s\t%s\tsha256:%s\n' "$path" "$(stat -c '%s' "./$path")" "$(stat -c '%Y' "./$path")" \
            "$(sha256sum <"$path" | cut -d' ' -f1)"
    done) >"$T/manifest.tsv"
    mv "$T/manifest.tsv" "$SRC/manifest.tsv"
}

# Everything local: by `sampan warmup` where this build has it, else by reading it all.
warm_all() {
    if sampan help warmup >"$T/help" 2>&1; then
        sampan warmup "$MNT" --verify --quiet
    else
        find "$MNT" -type f -print0 | xargs -0 -P 8 -n 8 cat >/dev/null
    fi
    settled() { [ "$(status cache.samples)" = "$(status set.samples)" ]; }
    until_true 20 settled || fail "only $(status cache.samples) of $(status set.samples) samples are cached"
}
