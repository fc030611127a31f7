#!/usr/bin/env bash
# Each program says its version, which is one of all; where that cannot be said, it fails.
. "$SAMPAN_TESTS/lib/common.sh"
version=$("$SAMPAN" --version) || fail "sampan --version"
[[ $version =~ ^sampan\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "sampan --version says: $version"
for program in sampan-csi sampan-operator sampan-train; do
    expect "what $program --version says" "$("$SAMPAN_BUILD/bin/$program" --version)" "$program ${version#sampan }"
    ! "$SAMPAN_BUILD/bin/$program" --version >/dev/full 2>"$T/why" || fail "$program: a version that nobody could read"
    refused 2 "unknown option|an option without" "$SAMPAN_BUILD/bin/$program" --version --no-such-thing
done
