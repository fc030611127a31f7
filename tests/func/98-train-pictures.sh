#!/usr/bin/env bash
# A residual net trains on pictures of a mounted bucket, cold at first: every sample ends in the cache, the
# mount hears which order and epoch are read, and the same training from the plain folder ends with the same loss.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
"$SAMPAN_BUILD/tools/make-pictures" "$SRC" 4 20 48 40
use_s3
s3_names
s3 put "$BUCKET" "$SRC" "train/"
mount_set "s3://$BUCKET/train" --no-hedge

train() { # DATA : the summary of three epochs, in $T/summary
    "$TRAIN" --model resnet18 --image 32 --data "$1" --batch-size 16 --epochs 3 --seed 7 --workers 2 --device cpu \
        --log_level error --json >"$T/lines" 2>"$T/why" || fail "$(cat "$T/why")"
    tail -n 1 "$T/lines" >"$T/summary"
}
train "$MNT"
expect "how it ended" "$(field state <"$T/summary")" done
expect "samples" "$(field samples <"$T/summary")" 240
through_mount=$(field loss <"$T/summary")
expect "samples that are here now" "$(status cache.samples)" 80
expect "errors" "$(status reads.errors)" 0
expect "epoch that the mount was told" "$(status order.epoch)" 2
case $(status order.sampler) in torch-distributed,*) ;; *) fail "the order: $(status order.sampler)" ;; esac
train "$SRC"
expect "loss from the plain folder" "$(field loss <"$T/summary")" "$through_mount"
