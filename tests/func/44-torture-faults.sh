#!/usr/bin/env bash
# Each call that fails in turn gives a clean error, no wrong byte and nothing half-done: a short round.
. "$SAMPAN_TESTS/lib/common.sh"
"$PYTHON" "$SAMPAN_TESTS/torture/torture.py" --short --jobs 1 --seed "$(date +%j)" faults allocs
