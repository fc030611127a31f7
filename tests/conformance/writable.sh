# Sourced by `run`: suites for file systems that can be written, fsx and pjdfstest (their Rust editions, built once
# with cargo), on a mount over a local folder.
#
#   FSX_OPS=N       operations of each fsx run (100 000); one run without, one with a kill -9 of the daemon every 3 s
#   FSX_SEED=N      of the random operations; by default another one each time, which is printed
#   FSX_ROUNDS='kills'      that round alone (plain: without kills)

fsx=$cache/bin/fsx-unmaps pjd=$cache/bin/pjdfstest
suite() { # NAME VERSION
    [ -x "$cache/bin/$1" ] || ! command -v cargo >/dev/null && return
    echo "building $1 $2 (a minute, once) ..."
    timeout 1500 cargo install --quiet --locked --root "$cache" "$1@$2" >"$cache/$1.log" 2>&1 || tail -3 "$cache/$1.log"
}
# fsx 0.3.2 keeps the mapping of every "mapread": each makes the next truncation and msync slower, and after some
# 560 000 operations the process has as many as Linux allows. Built with the missing munmap().
fsx_that_unmaps() {
    [ -x "$fsx" ] || ! command -v cargo >/dev/null && return
    echo "building fsx 0.3.2 (a minute, once) ..."
    local at="$T/fsx"
    mkdir -p "$at/get/src"
    printf '[package]\nname = "get"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nfsx = "=0.3.2"\n' >"$at/get/Cargo.toml"
    : >"$at/get/src/lib.rs"
    {
        (cd "$at/get" && cargo vendor --quiet ../vendor >/dev/null) && mv "$at/vendor/fsx" "$at/fsx" &&
            sed -i '/fn domapread/,/^    }/s/^\( *\)self\.check_eofpage(.*;$/&\n\1munmap(p, map_size).unwrap();/' "$at/fsx/src/main.rs" &&
            grep -A20 'fn domapread' "$at/fsx/src/main.rs" | grep munmap &&
            timeout 1500 cargo install --quiet --locked --path "$at/fsx" --root "$at/root" && mkdir -p "$cache/bin" &&
            mv "$at/root/bin/fsx" "$fsx"
    } >"$cache/fsx.log" 2>&1 || tail -3 "$cache/fsx.log"
    rm -rf "$at"
}
wants fsx && fsx_that_unmaps
wants pjdfstest && suite pjdfstest 0.2.2

mkdir -p "$T/out" "$T/artifacts"
mount_out() { # NAME [OPTIONS…]
    local name=$1
    shift
    mkdir -p "$T/out/$name"
    "$SAMPAN" mount "file://$T/out/$name" "$T/mnt" --writable --cache "ssd:$T/cache-$name=1GiB" --free-space 0 "$@"
}

# --- fsx ------------------------------------------------------------------------------------------------
cat >"$T/fsx.toml" <<'EOF'
flen = 262144
[opsize]
max = 65536
min = 1
[weights]
close_open = 1
fsync = 1
fdatasync = 1
invalidate = 1
mapread = 5
mapwrite = 5
read = 10
write = 10
truncate = 5
posix_fallocate = 1
punch_hole = 1
sendfile = 1
copy_file_range = 1
EOF

kill_daemon_while() { # PID SECONDS: so often, as long as PID lives
    local daemon
    kills=0
    while sleep "$2" && kill -0 "$1" 2>/dev/null; do
        daemon=$("$SAMPAN" status "$T/mnt" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])') &&
            [ "$daemon" -gt 0 ] && kill -9 "$daemon" && kills=$((kills + 1)) # 0: between two lives
    done
}

fsx_round() { # NAME WITH-KILLS
    local ops=${FSX_OPS:-100000} seed=${FSX_SEED:-$RANDOM} began=$SECONDS code=0 kills=0 pid
    mount_out "$1" --commit background || { result "fsx: the mount" 1; return; }
    "$fsx" -q -f "$T/fsx.toml" -N "$ops" -S "$seed" -P "$T/artifacts" "$T/mnt/f" >"$T/fsx.out" 2>&1 &
    pid=$!
    [ "$2" = 0 ] || kill_daemon_while "$pid" 3
    wait "$pid" || code=1
    [ $code = 0 ] || grep -v '^ *[0-9]*: \|^stack backtrace' "$T/fsx.out" | tail -25
    "$SAMPAN" flush "$T/mnt" && cmp "$T/mnt/f" "$T/out/$1/f" || code=1
    "$SAMPAN" umount "$T/mnt" || code=1
    result "fsx: $ops operations, seed $seed, $kills kills of the daemon, $((SECONDS - began)) s; then stored as written" $code
}
if ! wants fsx; then
    :
elif [ -x "$fsx" ]; then
    for round in ${FSX_ROUNDS:-plain kills}; do
        case $round in
        plain) fsx_round plain 0 ;;
        kills) fsx_round kills 1 ;;
        *) result "fsx: there is no round '$round' (FSX_ROUNDS: plain, kills)" 1 ;;
        esac
    done
else
    skipped fsx "no Rust compiler, or the build did not work"
fi

# --- pjdfstest ------------------------------------------------------------------------------------------
cat >"$T/pjd.toml" <<'EOF'
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.01
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
EOF
# What an object store has not, so that the mount refuses it (EPERM): devices, pipes and sockets, and second names
# of one file (docs/writable.md). The cases named one by one make such a thing on their way.
not_applicable='::(block|char|fifo|socket)$|^(link|mkfifo|mknod)::'
not_applicable+='|^unlink::(update_ctime_success|unchanged_ctime_failed)::regular$'
not_applicable+='|^rename::(preserve_metadata|to_multiply_linked)::regular$'
not_applicable+='|^open::(fifo_nonblock_wronly|socket_error)$'
# A path as long as the system allows, made below the mount, does not fit below the folder that stores it: refused.
not_applicable+='|::enametoolong_path$'

pjd_round() { # NAME WITH-KILLS
    local failed_cases ok skips refused kills=0 pid
    mount_out "pjd-$1" --commit background --allow-other || { result "pjdfstest: the mount" 1; return; }
    chmod 777 "$T/mnt"
    "$pjd" -c "$T/pjd.toml" -p "$T/mnt" >"$T/pjd.out" 2>&1 &
    pid=$!
    [ "$2" = 0 ] || kill_daemon_while "$pid" 0.5 # it takes no more than some seconds
    wait "$pid"
    ok=$(grep -c ' ok$' "$T/pjd.out") skips=$(grep -c ' skipped$' "$T/pjd.out")
    refused=$(awk '/ FAILED$/ { print $1 }' "$T/pjd.out" | grep -cE "$not_applicable")
    failed_cases=$(awk '/ FAILED$/ { print $1 }' "$T/pjd.out" | grep -vE "$not_applicable")
    [ -z "$failed_cases" ] || echo "$failed_cases" | sed 's/^/    failed: /'
    skipped "pjdfstest, in part" "$refused cases need hard links, devices, pipes, sockets or a \
path that the store cannot hold; $skips need a remount, \
another file system or flags that Linux has not"
    "$SAMPAN" umount "$T/mnt"
    [ -z "$failed_cases" ] && [ "$ok" -ge 150 ] && [ $((kills > 0)) = "$2" ]
    result "pjdfstest: $ok cases, $kills kills of the daemon" $?
}
if ! wants pjdfstest; then
    :
elif [ ! -x "$pjd" ]; then
    skipped pjdfstest "no Rust compiler, or the build did not work"
elif [ "$(id -u)" != 0 ]; then
    skipped pjdfstest "it changes users: needs root"
else
    pjd_round plain 0
    pjd_round kills 1
fi

# --- fio, stress-ng ---------------------------------------------------------------------------------------
! wants fio || . tests/conformance/fio.sh
