# Sourced by writable.sh: fio and stress-ng, which check what they read, while the daemon is killed every 3 s and its
# keeper now and then.
#
#   FIO_SECONDS=N   of each round (20)

fio_seconds=${FIO_SECONDS:-20}

pid_of() { "$SAMPAN" status "$T/mnt" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

# Every 3 s as long as PID lives: the daemon, and every fourth time the keeper. Never both at once: nobody would be
# left who holds the mount.
kill_either_while() {
    local which victim turn=0
    kills=0
    while sleep 3 && kill -0 "$1" 2>/dev/null; do
        turn=$((turn + 1)) which=pid
        [ $((turn % 4)) != 0 ] || which=keeper_pid
        victim=$(pid_of "$which") && [ "$victim" -gt 0 ] && kill -9 "$victim" && kills=$((kills + 1)) # 0: between two lives
    done
}

# One job an engine, each in a file of its own: written in any order, read back, and again until its time is over. (Reads
# between the writes of one pass, of more than one request at once, fio itself takes for wrong ones, on any disk.)
cat >"$T/write.fio" <<EOF
[global]
directory=$T/mnt/fio
size=24m
rw=randwrite
verify=crc32c
verify_fatal=1
verify_state_save=0
loops=1000
runtime=$fio_seconds
thread=1
randrepeat=0
[psync]
ioengine=psync
bsrange=512-96k
fsync=64
verify_backlog=200
[appends]
ioengine=psync
rw=write
bs=13k
fdatasync=100
[libaio]
ioengine=libaio
iodepth=8
bs=8k
[libaio-direct]
ioengine=libaio
iodepth=8
direct=1
bs=16k
[io_uring]
ioengine=io_uring
iodepth=8
bs=4k
[io_uring-direct]
ioengine=io_uring
iodepth=4
direct=1
bs=64k
[mmap]
ioengine=mmap
bs=4k
[posixaio]
ioengine=posixaio
iodepth=4
bs=32k
EOF

# Of files that nobody changes: each engine reads all of them, again and again.
cat >"$T/read.fio" <<EOF
[global]
directory=$T/mnt
nrfiles=4
size=16m
filename_format=set.\$filenum
verify=crc32c
verify_fatal=1
verify_state_save=0
loops=1000
time_based=1
runtime=$fio_seconds
thread=1
bs=16k
rw=randread
[psync]
ioengine=psync
[libaio-direct]
ioengine=libaio
iodepth=8
direct=1
[io_uring]
ioengine=io_uring
iodepth=8
[mmap]
ioengine=mmap
EOF

under_kills() { # NAME PROGRAM ARGS…: its output in $T/NAME.out
    local name=$1 code=0 pid
    shift
    "$@" >"$T/$name.out" 2>&1 &
    pid=$!
    kill_either_while "$pid"
    wait "$pid" || code=1
    [ $code = 0 ] || grep -iE 'fail|error|verify|err=|skip|aborted' "$T/$name.out" | head -15
    return $code
}

fio_writes() { # COMMIT
    local code=0 kills=0
    mount_out "fio-$1" --commit "$1" || { result "fio: the mount" 1; return; }
    mkdir "$T/mnt/fio"
    under_kills fio fio "$T/write.fio" || code=1
    "$SAMPAN" flush "$T/mnt" && diff -r "$T/mnt/fio" "$T/out/fio-$1/fio" || code=1
    "$SAMPAN" umount "$T/mnt" || code=1
    result "fio, --commit $1: 8 jobs wrote and verified, $kills kills; then stored as written" $code
}

fio_reads() {
    local code=0 kills=0
    mkdir "$T/fio-set"
    sed "s|^directory=.*|directory=$T/fio-set|; s|^rw=.*|rw=write|; /^loops\|^time_based\|^runtime/d; /^\[libaio/,\$d" \
        "$T/read.fio" >"$T/make.fio"
    fio "$T/make.fio" >"$T/fio.out" 2>&1 && "$SAMPAN" mount "file://$T/fio-set" "$T/mnt" --cache "ssd:$T/cache-fio-set=1GiB" ||
        { result "fio: the set" 1; return; }
    under_kills fio fio "$T/read.fio" || code=1
    "$SAMPAN" umount "$T/mnt" || code=1
    result "fio, read-only: 4 jobs read and verified, $kills kills" $code
}

# What writes, names, locks, cuts and lists files, all at once, and looks whether it was done. Left out is what the mount
# refuses by design (hard links, extended attributes), and FIEMAP, which is a disk's.
stressors="access chmod chown copy-file dentry dir dirdeep dirmany fallocate filename flock fpunch fstat getdent hdd io iomix
    locka lockf lockofd mknod open rename seek symlink sync-file utime"
small="--copy-file-bytes 128m --dentries 200 --dir-dirs 64 --dirdeep-inodes 500 --fallocate-bytes 16m --hdd-bytes 16m
    --iomix-bytes 16m --seek-size 8m --sync-file-bytes 16m"

stress() {
    local code=0 kills=0 one options=()
    for one in $stressors; do options+=("--$one" 1); done
    mount_out stress --commit background || { result "stress-ng: the mount" 1; return; }
    mkdir "$T/mnt/stress"
    # shellcheck disable=SC2086 # words
    under_kills stress stress-ng --temp-path "$T/mnt/stress" --verify --timeout "$fio_seconds" "${options[@]}" $small || code=1
    "$SAMPAN" flush "$T/mnt" && diff -r "$T/mnt/stress" "$T/out/stress/stress" || code=1
    "$SAMPAN" umount "$T/mnt" || code=1
    result "stress-ng: $((${#options[@]} / 2)) stressors at once, $kills kills; then stored as it was left" $code
}

if command -v fio >/dev/null; then
    fio_writes background
    fio_writes close
    fio_reads
else
    skipped fio "it is not installed (apt-get install fio)"
fi
if command -v stress-ng >/dev/null; then
    stress
else
    skipped stress-ng "it is not installed (apt-get install stress-ng)"
fi
