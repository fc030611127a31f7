#!/usr/bin/env bash
# Wrong usage is exit 2 with the nearest known word; help and version say what they should.
. "$SAMPAN_TESTS/lib/common.sh"
make_set --classes 1 --files 1
refused 2 "free-space" sampan mount "file://$SRC" "$MNT" --free-spcae 10
refused 2 "mount" sampan mout x y
refused 2 "size|cache|12potatoes" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=12potatoes"
refused 2 "memory.*at least 64" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --memory 1KiB
refused 2 "request-timeout: .0. is too short .at least 100ms" sampan serve --mount "$MNT" --no-auth --listen 127.0.0.1:0 --state "$T/server" --request-timeout 0
refused 2 "interval: .0. is too short" sampan stats "$MNT" --interval 0
refused 2 "cache tier .*more than one" sampan mount "file://$SRC" "$MNT" --cache "ssd:$T/one=1GiB,hdd:$T/two=1GiB"
[ ! -e "$T/one=1GiB,hdd:$T" ] || fail "a folder was made of two tiers"
refused 2 '^sampan mount: --log-level: "nosuch" is no module.*cache, .*fuse, .*volume' sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --log-level info,nosuch=debug
refused 2 '"fetched" is no module' sampan scan "file://$SRC" --cache "ssd:$CACHE=1GiB" --log-level fetch=warn,fetched=debug
SAMPAN_LOG_LEVEL=info,rpc=debug sampan scan "file://$SRC" --cache "ssd:$T/scan=1GiB" --log-level info,fetch=debug >"$T/said"
SAMPAN_LOG_LEVEL=info,rpc=debug sampan scan "file://$SRC" --cache "ssd:$T/scan=1GiB" >"$T/said" # as of the CSI driver
(cd "$SRC" && refused 2 "name is empty" sampan mount "" "$MNT" --cache "ssd:$CACHE=1GiB")
(cd "$SRC" && refused 2 "name is empty" sampan sync "" "file://$T/copy")
echo junk >"$T/junk"
refused 2 "not a set.*neither a set file.*nor a catalog" sampan mount "$T/junk" "$MNT" --cache "ssd:$CACHE=1GiB"
refused 2 "sampler|known" sampan mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB" --sampler no-such-sampler
refused 2 "scheme|uri|gopher" sampan mount gopher://x/y "$MNT" --cache "ssd:$CACHE=1GiB"
refused 2 "not an address: $T/there.*file://$T/there" sampan sync "file://$SRC" "$T/there"
refused 3 "$T/nothing" sampan umount "$T/nothing"
refused 3 "$T/nothing|no mount" sampan status "$T/nothing"
# A folder that mount takes as a set: warmup means mounts by a path, and says how a set is named.
mkdir "$T/folder"
refused 3 "$T/folder: no mount of ours is here .*; of a folder as a set it is file://$T/folder" sampan warmup "$T/folder" --cache "ssd:$CACHE=1GiB"
says() { # TEXT CMD… : its output holds the text
    local text=$1
    shift
    "$@" >"$T/said" || fail "$* failed"
    grep -qE -- "$text" "$T/said" || fail "$* does not say $text"
}
says '[0-9]\.[0-9]' sampan version
says mount sampan help
says --free-space sampan help mount
# What explains itself fits a terminal that nobody made wider.
for verb in "" $(sampan help | awk '/^  [a-z]/ { print $1 }'); do
    # shellcheck disable=SC2086
    expect "lines of help $verb that are too long" "$(sampan help $verb | awk 'length > 79')" ""
done
# A variable that nearly is an option's is named, with the one that was meant; others are other people's.
SAMPAN_ENDPIONT=http://127.0.0.1:1 SAMPAN_PORT=tcp://10.0.0.1:7716 sampan config mount >"$T/said" 2>"$T/said.err"
expect "about variables" "$(cat "$T/said.err")" \
    "sampan config: SAMPAN_ENDPIONT: no option reads this variable (did you mean SAMPAN_ENDPOINT?)"
# Certificate authorities that are not there are missed before plain HTTP would not ask for them.
refused 3 "--ca-file: $T/no.pem: No such file" sampan mount http://127.0.0.1:1/ "$MNT" --ca-file "$T/no.pem" --cache "ssd:$CACHE=1GiB"
refused 2 "--ca-file: $T: a folder" sampan scan http://127.0.0.1:1/ --ca-file "$T"
SAMPAN_MEMORY=300MiB says "memory .*300.*environment" sampan config
# What config prints for a command is a configuration file that says the same.
for verb in mount scan warmup sync serve plan bench doctor top stats evict; do
    sampan config $verb >"$T/conf-one"
    sampan config $verb --config "$T/conf-one" >"$T/conf-two"
    diff <(sed 's/ *# [a-z ]*$//' "$T/conf-one") <(sed 's/ *# [a-z ]*$//' "$T/conf-two") || fail "config $verb"
done
sampan config mount --cache mem:/m=64MiB --cache "ssd:/a #b=1GiB" --memory 300MiB --quiet >"$T/conf-one"
sampan config mount --config "$T/conf-one" >"$T/conf-two"
expect "tiers of the file" "$(grep -c '^cache  *= .* # file' "$T/conf-two")" 2
says 'cache  *= ssd:/a #b=1GiB  *# file' cat "$T/conf-two"
says 'memory  *= 300MiB  *# file' cat "$T/conf-two"
says 'quiet  *= true  *# file' cat "$T/conf-two"
says "^.TH" sampan help --man mount
says "at least 64.0 MiB .256MiB" sampan help --man mount
says "; 1 to 1024 .64" sampan help --man mount
says complete sampan help --completion bash
says compdef sampan help --completion zsh
nothing_left

# What goes with another option is not left out in silence; who asks for help is helped whatever a file says.
refused 2 "--repack: goes with --pack" sampan sync "file://$T/from/" "file://$T/to/" --repack
refused 2 "--token-file: goes with --worker" sampan sync "file://$T/from/" "file://$T/to/" --token-file /dev/null
mkdir "$T/from"
SAMPAN_TOKEN_FILE=/dev/null sampan sync "file://$T/from/" "file://$T/to/" --quiet # as of a server that runs here
echo "no-such-option=1" >"$T/broken"
export SAMPAN_CONFIG=$T/broken
refused 2 "no-such-option" sampan status
for words in help version "help sync" "sync --help"; do
    # shellcheck disable=SC2086
    sampan $words >"$T/said" || fail "$words"
done
grep -q "0: at all" "$T/said" || fail "sync --limit 0: $(cat "$T/said")"
unset SAMPAN_CONFIG
