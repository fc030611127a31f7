#!/usr/bin/env bash
# With --sampler the samples next in order are fetched before the reader asks: here all of a small set,
# so that the reader never notices that the store is gone.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 4 --files 60 --size 20000
start_nginx
spec="paddle-distributed,ranks=1,batch-size=8,shuffle=true,epoch=0"
mount_set "$HTTP_URL/" --sampler "$spec"
all_here() { [ "$(status cache.samples)" = 240 ]; }
until_true 30 all_here || fail "only $(status cache.samples) of 240 were fetched ahead: $(status ahead)"
by_readers() { echo $(($(status reads.total) - $(status reads.pushed))); }
no_reader() { [ "$(by_readers)" = 0 ]; } # they are pushed meanwhile, between one look and the other
until_true 10 no_reader || fail "reads of readers: $(by_readers)"
stop_nginx
sampan bench epoch "$MNT" --sampler "$spec" --json >"$T/bench.json"
expect "samples" "$(field samples <"$T/bench.json")" 240
expect "errors" "$(field errors <"$T/bench.json")" 0
same_bytes "$SRC" "$MNT"
unmount
