#!/usr/bin/env bash
# Each thing an older kernel lacks, hidden in turn and all together: the same bytes, and status says why.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --odd --classes 2 --files 6
best=
for mask in "" no_open no_opendir readdirplus async_read passthrough notify ioctl max_pages \
    no_open,no_opendir,readdirplus,async_read,passthrough,notify,ioctl,max_pages; do
    SAMPAN_FUSE_MASK=$mask mount_set "file://$SRC" --cache "ssd:$T/cache-${mask:-none}=1GiB" --sampler sequence
    same_tree "$SRC" "$MNT"
    drop_pages
    same_tree "$SRC" "$MNT"
    mode=$(status mode)
    echo "mask '$mask': mode $mode"
    [ -n "$best" ] || best=$mode
    case $mask in
    *no_open*) [ "$mode" != "$best" ] || [ "$mask" = no_opendir ] || fail "the mode does not show that $mask is hidden" ;;
    esac
    expect "errors" "$(status reads.errors)" 0
    unmount
done
SAMPAN_FUSE_MASK=passthrough mount_set "file://$SRC" --cache "ssd:$T/cache-shards=1GiB" --profile shards
same_tree "$SRC" "$MNT"
unmount
SAMPAN_FUSE_MASK=nonsense refused 2 nonsense sampan mount "file://$SRC" "$MNT" --cache "ssd:$T/c9=1GiB"
nothing_left
