#!/usr/bin/env bash
# Names that hold a line end or what terminals obey stay on their line, whichever command tells them.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 1 --files 1
evil=$'two\nlines \e[31m'
mkdir "$T/$evil"
echo x >"$SRC/$evil"
touch -d 2001-01-01 "$SRC/$evil"
plain() { # FILE LINES: so many lines, and nothing else that a terminal obeys
    expect "lines of $1: $(cat -v "$1")" "$(wc -l <"$1")" "$2"
    ! LC_ALL=C grep -q '[^[:print:]]' "$1" || fail "$1: $(cat -v "$1")"
}
sampan mount "file://$SRC" "$T/$evil" --cache "ssd:$CACHE=1GiB"
sampan bench au "$T/$evil" --model resnet50 --mode blind --steps 1 >"$T/au"
plain "$T/au" 4
sampan evict "$T/$evil" --store --to 0 >"$T/evict"
plain "$T/evict" 3
sampan rmr "$T/$evil/$evil" --dry >"$T/rmr" 2>"$T/rmr.err"
plain "$T/rmr" 1
plain "$T/rmr.err" 1
sampan upgrade "$T/$evil" >"$T/upgrade"
plain "$T/upgrade" 1
sampan upgrade --all --program "$(command -v true)" 2>"$T/upgrade.err" && fail "true serves no mount"
plain "$T/upgrade.err" 1
mkdir -m 700 "$T/elsewhere"
SAMPAN_RUN_DIR=$T/elsewhere sampan status >/dev/null 2>"$T/others"
plain "$T/others" 1
sampan umount "$T/$evil"
! "$SAMPAN_BUILD/bin/sampan-train" "$evil" 2>"$T/train" || fail "an option without its name"
plain "$T/train" 1
