#!/usr/bin/env bash
# What 85-writable-interrupted.sh claims, over BOS.
OVER=bos
. "$SAMPAN_TESTS/func/85-writable-interrupted.sh"
