#!/usr/bin/env bash
# What 60-life-signal-in-each-phase.sh claims, of mounts that can be written.
WRITABLE=1
. "$SAMPAN_TESTS/func/60-life-signal-in-each-phase.sh"
