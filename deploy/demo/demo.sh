#!/usr/bin/env bash
# The demo: makes a set of pictures, serves it from a web server 10 ms away that stands for the bucket,
# mounts it, reads it cold, warmed and hot, and prints what was read from where and how fast, beside
# the same files on the plain disk. Everything lives in one temporary folder and is gone at the end.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
: "${SAMPAN:?the program}" "${TOOLS:?the folder of the relay}"
count=${DEMO_IMAGES:-2000} readers=${DEMO_READERS:-8} one_way_ms=5

T=$(mktemp -d "${TMPDIR:-/tmp}/sampan-demo.XXXXXX")
chmod 755 "$T"
export SAMPAN_RUN_DIR="$T/run"
mkdir "$T/bucket" "$T/mnt" "$T/run"
server='' relay=''

clean_up() {
    local code=$?
    set +e
    trap - EXIT
    trap '' INT TERM # a second Ctrl-C leaves nothing behind, either
    "$SAMPAN" umount "$T/mnt" 2>/dev/null || "$SAMPAN" umount --lazy "$T/mnt" 2>/dev/null # if it is mounted yet, or still
    [ -z "$relay" ] || kill "$relay" 2>/dev/null # Ctrl-C has reached both already
    [ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
    rm -rf --one-file-system "$T"
    exit $code
}
trap clean_up EXIT
trap 'exit 130' INT TERM

can_mount() {
    [ -c /dev/fuse ] || { echo "demo: no /dev/fuse here: mounting is not possible in this container" >&2; exit 1; }
}

start_server() {
    local tries=1
    until serve; do # the port may have gone to somebody else meanwhile
        [ $((tries++)) -lt 3 ] || { echo "demo: the web server does not answer: $(tail -1 "$T/nginx.err")" >&2; exit 1; }
    done
    url="http://127.0.0.1:$(cat "$T/port")/manifest.tsv"
}

serve() { # until it answers, or has ended
    local port
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    cat >"$T/nginx.conf" <<CONF
daemon off; pid "$T/nginx.pid"; error_log "$T/nginx.err"; worker_processes 1;
$([ "$(id -u)" != 0 ] || echo "user root;")
events { worker_connections 1024; }
http {
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
    client_body_temp_path "$T/n1"; proxy_temp_path "$T/n2"; fastcgi_temp_path "$T/n3"; uwsgi_temp_path "$T/n4"; scgi_temp_path "$T/n5";
    server { listen 127.0.0.1:$port backlog=1024; root "$T/bucket"; }
}
CONF
    nginx -p "$T" -c "$T/nginx.conf" 2>>"$T/nginx.err" &
    server=$!
    until curl -sf -o "$T/up" "http://127.0.0.1:$port/manifest.tsv"; do
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.05
    done
    "$TOOLS/delay" "$port" "$one_way_ms" >"$T/port" &
    relay=$!
    until [ -s "$T/port" ]; do
        kill -0 "$relay" 2>/dev/null || return 1
        sleep 0.05
    done
}

# Takes the files below a folder out of the page cache; needs no privilege.
forget_pages() {
    python3 - "$@" <<'PY'
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
for root in sys.argv[1:]:
    for at, _, names in os.walk(root):
        for name in names:
            path = os.path.join(at, name)
            if not os.path.isfile(path):
                continue
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(fd)
            except OSError:
                pass
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
PY
}

reads_so_far() { "$SAMPAN" status "$T/mnt" --json >"$1" 2>/dev/null || echo '{}' >"$1"; }

# One line of the table: reads everything below DIR once and says where the bytes came from.
row() { # LABEL DIR
    local label=$1 dir=$2
    reads_so_far "$T/before"
    "$SAMPAN" bench epoch "$dir" --threads "$readers" --order shuffle --seed 1 --json --quiet >"$T/epoch"
    reads_so_far "$T/after"
    python3 - "$label" "$T/epoch" "$T/before" "$T/after" "$([ "$dir" = "$T/mnt" ] && echo mount || echo disk)" <<'PY'
import json, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
label, epoch, before, after, kind = sys.argv[1:]
epoch, before, after = (json.load(open(f)) for f in (epoch, before, after))
def grew(name):
    return after["reads"][name] - before["reads"][name]
n = epoch["samples"]
if kind == "disk":
    where = f"{'-':>8} {'-':>8} {'-':>8}"
else:
    # Reads that reached Sampan are counted by their source; the kernel's page cache answered the rest.
    store, local = grew("store"), grew("mem") + grew("disk")
    where = f"{store:>8} {local:>8} {max(0, n - store - local):>8}"
print(f"{label:<38} {n:>7} {where} {epoch['samples_per_s']:>10,.0f} {epoch['bytes_per_s'] / 1e6:>8,.0f} {epoch['seconds']:>7.2f}")
PY
}

can_mount
echo "Making $count pictures ..."
bytes=$(python3 "$here/make-images.py" "$T/bucket" "$count")
(cd "$T/bucket" && find . -name '*.png' -printf '%P\t%s\t%Ts\n' | LC_ALL=C sort) >"$T/manifest.tsv"
mv "$T/manifest.tsv" "$T/bucket/manifest.tsv"
cp -r "$T/bucket" "$T/disk" && rm "$T/disk/manifest.tsv"
start_server

echo "sampan mount http://…/manifest.tsv $T/mnt   ($((bytes / 1000000)) MB, the server is $((2 * one_way_ms)) ms away)"
"$SAMPAN" mount "$url" "$T/mnt" --cache "ssd:$T/cache=4GiB" --free-space 1% --log "$T/log"
echo
printf '%-38s %7s   %s\n' "" "" "------ read from -------"
printf '%-38s %7s %8s %8s %8s %10s %8s %7s\n' "$readers readers, every picture once" samples bucket cache kernel samples/s MB/s seconds
forget_pages "$T/disk"
row "plain disk, first read" "$T/disk"
row "plain disk, again" "$T/disk"
row "sampan, cold: all from the bucket" "$T/mnt"
forget_pages "$T/mnt" "$T/cache"
row "sampan, warm: cache on the disk" "$T/mnt"
forget_pages "$T/mnt"
row "sampan, warm: cache in memory" "$T/mnt"
row "sampan, hot: the next epoch" "$T/mnt"
echo
echo "bucket: reads that waited for the server.  cache: Sampan's verified local copies, what it fetched ahead"
echo "of the readers among them; a picture above 128 KiB is two reads.  kernel: the page cache; such a read"
echo "never leaves the kernel, so the next epoch runs at the speed of the plain disk."
diff -rq "$T/disk" "$T/mnt" && echo "Every byte is equal to the original."
"$SAMPAN" umount "$T/mnt"
