#!/usr/bin/env bash
# After a power cut under a writable mount every object of the store is whole, and all that was synced is there: 60 cuts.
. "$SAMPAN_TESTS/lib/common.sh"
need_root "each cut sees its store at the recorded place"
unshare -m true 2>/dev/null || skip "this container may not make mount namespaces"
"$PYTHON" "$SAMPAN_TESTS/torture/torture.py" --short --jobs 1 --seed "$(date +%j)" stage
