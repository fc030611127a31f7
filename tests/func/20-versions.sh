#!/usr/bin/env bash
# Each program says its version, which is one of all, and its help; where that cannot be said, it fails. It has a manual page.
. "$SAMPAN_TESTS/lib/common.sh"
version=$("$SAMPAN" --version) || fail "sampan --version"
[[ $version =~ ^sampan\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "sampan --version says: $version"
for program in sampan-csi sampan-operator sampan-train; do
    expect "what $program --version says" "$("$SAMPAN_BUILD/bin/$program" --version)" "$program ${version#sampan }"
    ! "$SAMPAN_BUILD/bin/$program" --version >/dev/full 2>"$T/why" || fail "$program: a version that nobody could read"
    refused 2 "unknown option|an option without" "$SAMPAN_BUILD/bin/$program" --version --no-such-thing
    ! "$SAMPAN_BUILD/bin/$program" --man >/dev/full 2>"$T/why" || fail "$program: a page that nobody could read"
done
for command in "train" "train predict" "train ui" "train launch" "train split" "csi" "operator"; do
    # shellcheck disable=SC2086 # words
    "$SAMPAN_BUILD"/bin/sampan-$command --man | tr -d '\\' >"$T/page"
    expect "the title of its page" "$(sed -n '1s/ 1 .*//p' "$T/page")" ".TH SAMPAN-$(tr 'a-z ' 'A-Z-' <<<"$command")"
    # shellcheck disable=SC2086
    "$SAMPAN_BUILD"/bin/sampan-$command --help | grep -oE '^  --[a-z_-]+' | while read -r option; do
        grep -qF "fB${option#  }fR" "$T/page" || fail "the page of $command does not know $option"
    done
    # shellcheck disable=SC2086
    ! "$SAMPAN_BUILD"/bin/sampan-$command --help >/dev/full 2>"$T/why" || fail "$command: a help that nobody could read"
    grep -q "print what was asked for: No space left on device" "$T/why" || fail "$command says: $(cat "$T/why")"
done
