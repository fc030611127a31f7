#!/usr/bin/env bash
# sampan set changes sampler, epoch and bandwidth of a running mount; a wrong key names those known.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 10
mount_set "file://$SRC"
sampan set "$MNT" sampler=paddle-distributed,ranks=2,batch-size=4 epoch=1
sampan set "$MNT" bandwidth=100MB
refused 2 "bandwidth" sampan set "$MNT" bandwith=1
refused 2 "epoch is given twice" sampan set "$MNT" epoch=7 memory=64MiB epoch=8
same_tree "$SRC" "$MNT"
unmount
