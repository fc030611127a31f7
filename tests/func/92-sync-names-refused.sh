#!/usr/bin/env bash
# Names that no key can be are said in words, a line each whatever is in them, and all else is copied.
. "$SAMPAN_TESTS/lib/common.sh"
use_s3
mkdir -p "$SRC"
printf x >"$SRC/"$'l\xe4ngst'
printf x >"$SRC/"$'l\xe4nge\nbreite\e[31m'
printf y >"$SRC/known"
code=0
sampan sync "file://$SRC" "s3://$BUCKET/latin" --json --quiet >"$T/out" || code=$?
expect "exit code" "$code" 1
expect "copied" "$(field copied <"$T/out")" 1
expect "failed" "$(field failed <"$T/out")" 2
expect "samples" "$(sampan scan "s3://$BUCKET/latin" --cache-dir "$T/scan" --json --quiet | field samples)" 1

sampan sync "file://$SRC" "s3://$BUCKET/latin" --quiet >"$T/out" 2>"$T/err" && fail "copied as what?"
expect "lines" "$(LC_ALL=C grep -ac '^sampan sync: failed: l.*: its name is not UTF-8' "$T/err")" 2
expect "bytes that terminals obey" "$(LC_ALL=C tr -d '\n' <"$T/err" | LC_ALL=C grep -ac '[[:cntrl:]]' || true)" 0

sampan sync "file://$SRC" "file://$T/copy" --quiet
same_bytes "$SRC" "$T/copy"
