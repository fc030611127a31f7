#!/usr/bin/env bash
# Ranks that are killed at random steps, and within checkpoints: the others name the dead one, what is stored is whole, and the job goes
# on to the bits of one that nobody killed. A short round.
. "$SAMPAN_TESTS/lib/common.sh"
"$PYTHON" "$SAMPAN_TESTS/torture/torture.py" --short --jobs 1 --cuts 15 --seed "$(date +%j)" --points 2 train
