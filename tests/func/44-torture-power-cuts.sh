#!/usr/bin/env bash
# After a power cut the cache opens, serves no wrong byte, and has all that was synced: 60 cuts.
. "$SAMPAN_TESTS/lib/common.sh"
"$PYTHON" "$SAMPAN_TESTS/torture/torture.py" --short --jobs 1 --seed "$(date +%j)" cuts
