#!/usr/bin/env bash
# On a warm cache a paced reader in the known order finds nearly all samples pushed into the page cache.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 5 --files 100 --size 20000
spec="paddle-distributed,ranks=1,batch-size=16,shuffle=true,epoch=0"
mount_set "file://$SRC"
warm_all
unmount
mount_set "file://$SRC" --sampler "$spec"
case "$(status mode)" in *push*) ;; *) skip "this kernel offers no push: mode $(status mode)" ;; esac
sampan bench epoch "$MNT" --sampler "$spec" --rate 1000 --json >"$T/bench.json"
expect "samples" "$(field samples <"$T/bench.json")" 500
pushed=$(status reads.pushed)
asked=$(($(status reads.total) - pushed))
echo "reads that the owner was asked for $asked, pushed $pushed, of 500"
at_least "pushed" "$pushed" 490
at_most "asked for" "$asked" 10
same_bytes "$SRC" "$MNT"
unmount
