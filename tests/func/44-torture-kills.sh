#!/usr/bin/env bash
# Killed before its n-th call, a scan, fill, publish, clear or evict is put right by the next run: a short round.
. "$SAMPAN_TESTS/lib/common.sh"
"$PYTHON" "$SAMPAN_TESTS/torture/torture.py" --short --jobs 1 --seed "$(date +%j)" kills
