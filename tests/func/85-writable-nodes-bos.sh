#!/usr/bin/env bash
# What 85-writable-nodes.sh claims, over BOS.
OVER=bos
. "$SAMPAN_TESTS/func/85-writable-nodes.sh"
