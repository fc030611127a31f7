#!/usr/bin/env bash
# What everyday readers say of a mount they say of its source: sums, times, sizes, archives, a repository of git
# (which maps its packs). Twice: from the source, and from the cache once the pages are dropped.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_command rsync
need_command git
make_set --odd
mkdir "$SRC/times"
for when in 2001-09-09T01:46:40 1969-12-31T23:59:58 2099-01-02T03:04:05; do touch -d "${when}Z" "$SRC/times/$when"; done
touch -d '1 day ago' "$SRC/times/yesterday"
printf fraction >"$SRC/times/fraction"
touch -d @1600000000.123456789 "$SRC/times/fraction"
export GIT_CONFIG_GLOBAL=$T/gitconfig GIT_OPTIONAL_LOCKS=0 GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
git config --global safe.directory '*'
git init -q "$SRC/repo"
cp -r "$SRC/class-000" "$SRC/repo/"
git -C "$SRC/repo" add -A
git -C "$SRC/repo" commit -qm one
git -C "$SRC/repo" repack -adq
(cd "$SRC" && find . -type f -print0 | xargs -0 sha256sum) >"$T/sums"
tar -C "$SRC" -cf "$T/source.tar" .
mount_set "file://$SRC"

says() { # COMMAND…: the same in the mount as in the source, and more than nothing
    local want
    want=$(cd "$SRC" && "$@" | LC_ALL=C sort) || fail "$* failed in the source"
    [ -n "$want" ] || fail "$* says nothing of the source, and so proves nothing"
    expect "$*" "$(cd "$MNT" && "$@" | LC_ALL=C sort)" "$want"
}
compare() {
    (cd "$MNT" && sha256sum --check --quiet "$T/sums") || fail "sha256sum --check"
    # A mount has modes and an owner of its own, and its folders have no times.
    tar -C "$MNT" --compare -f "$T/source.tar" >"$T/differs" 2>&1 || true
    expect "tar --compare" "$(grep -Ev ': (Mode|Uid|Gid) differs$|/: Mod time differs$|^\./?: ' "$T/differs" || true)" ""
    expect "rsync -c" "$(rsync -rtcni --omit-dir-times --delete "$SRC/" "$MNT/")" ""
    says find . -type f -printf '%P %s %n %T@\n'
    says find . -type d
    says find . -type f -mtime -2
    says find . -type f -mtime +4000
    says find . -type f -newermt 2090-01-01
    says find . -type f ! -newermt 1970-01-01
    says find . -type f -empty
    says find . -type f -size +1k
    says find . -type f -exec du --apparent-size --block-size=1 {} +
    says find . -type f -exec wc -c {} +
    says stat -c '%n %s %Y %y %F %h' times/fraction times/1969-12-31T23:59:58 odd/empty
    at_least "KiB by du" "$(du -s "$MNT" | cut -f1)" "$(find "$SRC" -type f -printf '%s\n' | awk '{ n += $1 } END { print int(n / 1024) }')"
    says git -C repo log --stat
    says git -C repo grep --count --text . HEAD
    says git -C repo verify-pack -v "$(cd "$SRC/repo" && echo .git/objects/pack/*.idx)"
    expect "git fsck" "$(git -C "$MNT/repo" fsck --strict --no-progress 2>&1)" ""
    expect "git status" "$(git -C "$MNT/repo" status --porcelain)" ""
}
compare
drop_pages
compare
cp -r --preserve=timestamps "$MNT/." "$T/copied"
expect "rsync -t of a copy with times" "$(rsync -rtcni --omit-dir-times --delete "$SRC/" "$T/copied/")" ""
chmod -R u+w "$T/copied"
unmount
