#!/usr/bin/env bash
# bash completes commands, their options, and the words that an option knows, given as --option WORD or --option=WORD.
. "$SAMPAN_TESTS/lib/common.sh"
sampan help --completion bash >"$T/completion"
. "$T/completion"
completes() { # WANT WORDS… : the last of the words, as bash splits them, becomes this
    local want=$1
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _sampan || true # nothing fits
    expect "what $* becomes" "${COMPREPLY[*]-}" "$want"
}
completes "umount upgrade" sampan u
completes "--profile --proxy --prefetch" sampan mount --pr
completes "samples shards" sampan mount --profile ""
completes "shards" sampan mount --profile sh
completes "samples shards" sampan mount --profile =
completes "shards" sampan mount --profile = sh
completes "bash zsh" sampan help --completion ""
completes "warmup" sampan help w
completes "" sampan mount s

# config has options of its own before a command's name, and that command's after it.
completes "config" sampan conf
completes "--json --help" sampan config -
completes "mount" sampan config mo
completes "mount" sampan config --json mo
completes "--profile --proxy --prefetch" sampan config mount --pr
completes "samples shards" sampan config --json mount --profile =
