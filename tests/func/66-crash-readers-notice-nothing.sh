#!/usr/bin/env bash
# Eight readers that compare every byte, while cachefs and keeper are killed: no error, no wrong byte, no call
# that hangs; also where the kernel cannot send requests again.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_root "kills and remounts"
export TMPDIR="$T/tmp"
"$PYTHON" "$SAMPAN_TESTS/crash/run" --seconds 3 --victim random --every 0.4
"$PYTHON" "$SAMPAN_TESTS/crash/run" --seconds 3 --mode no-resend --every 0.4
