# shellcheck shell=bash
# Sourced by scripts that make images: from nothing but programs, the libraries that they need, and files.
# No daemon, no registry, no base image; needs umoci (a Debian package).
#
#   image_root FOLDER                       a new root: accounts, certificates, folders
#   image_put FOLDER FILE DEST              a file at DEST and, of a program, its libraries where the linker looks
#   image_pack FOLDER NAME:TAG ARCHIVE [--config.entrypoint PROGRAM] [--config.user UID:GID] ...
#                                           an OCI archive; the same content gives the same bytes

image_root() {
    mkdir -p "$1"/{etc,proc,sys,dev,root,run,usr/bin,var/lib,var/cache,etc/ssl/certs}
    mkdir -m 1777 "$1/tmp"
    printf 'root:x:0:0:root:/root:/sbin/nologin\nsampan:x:65532:65532:sampan:/:/sbin/nologin\n' >"$1/etc/passwd"
    printf 'root:x:0:\nsampan:x:65532:\n' >"$1/etc/group"
    echo "hosts: files dns" >"$1/etc/nsswitch.conf"
    cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
}

image_put() { # FOLDER FILE DEST
    local library
    install -D -m "$(stat -L -c %a "$2")" "$2" "$1$3"
    while read -r library; do
        [ -e "$1$library" ] || install -D -m 0755 "$library" "$1$library"
    done < <(ldd "$2" 2>/dev/null | grep -o '/[^ ]*')
}

image_pack() { # FOLDER NAME:TAG ARCHIVE OPTIONS OF umoci config...
    local root=$1 name=$2 archive=$3 layout tag=${2##*:} when
    shift 3
    when=@${SOURCE_DATE_EPOCH:-0}
    find "$root" -exec touch -h -d "$when" {} +
    layout=$(mktemp -d)
    umoci init --layout "$layout/oci" &&
        umoci new --image "$layout/oci:$tag" &&
        umoci insert --history.created "$(date -u -d "$when" +%FT%TZ)" --image "$layout/oci:$tag" "$root" / &&
        umoci config --no-history --image "$layout/oci:$tag" --created "$(date -u -d "$when" +%FT%TZ)" --author sampan \
            --os linux --architecture "$(dpkg --print-architecture)" \
            --config.env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" &&
        umoci gc --layout "$layout/oci" &&
        # The full name, which container runtimes go by, beside the tag.
        sed -i "s|\"org.opencontainers.image.ref.name\"|\"io.containerd.image.name\":\"$(image_full_name "$name")\",&|" "$layout/oci/index.json" &&
        tar -C "$layout/oci" --sort=name --owner=0 --group=0 --numeric-owner --mtime="$when" -cf "$archive.new" . &&
        mv "$archive.new" "$archive"
    local code=$?
    rm -rf "$layout"
    return $code
}

image_full_name() { # NAME:TAG as Kubernetes completes it
    case ${1%%/*} in
    "$1") echo "docker.io/library/$1" ;;
    *.* | *:* | localhost) echo "$1" ;;
    *) echo "docker.io/$1" ;;
    esac
}
