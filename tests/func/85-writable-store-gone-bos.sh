#!/usr/bin/env bash
# What 85-writable-store-gone.sh claims, over BOS.
OVER=bos
. "$SAMPAN_TESTS/func/85-writable-store-gone.sh"
