# Sourced by scripts whose mounts are made by a user who is not root, through fusermount3.
#
#   $T/bin/sampan  the program where that user reaches it: `S` from here on. No keeper is beside it
#                  unless the script puts one there
#   as_user CMD…   runs a command as that user, who owns the mount point and the cache's folder
need_mount
need_root "becomes another user"
need_command fusermount3
need_command setpriv
[ -u "$(readlink -f "$(command -v fusermount3)")" ] || skip "fusermount3 is not set-uid"
# In a mount namespace of its own, /dev/fuse has the mode that distributions give it.
own_namespace
mknod -m 666 "$T/fuse" c 10 229
chmod 666 "$T/fuse"
mount --bind "$T/fuse" /dev/fuse
make_set --classes 2 --files 5
mkdir -m 755 "$T/bin"
cp "$S" "$T/bin/"
chown -R 65534:65534 "$MNT" "$CACHE" "$SAMPAN_RUN_DIR" "$HOME" "$TMPDIR" "$T/log"
as_user() { timeout 600 setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
sampan() { as_user "$S" "$@"; }
S=$T/bin/sampan
on_exit "umount -l $MNT"
