#!/usr/bin/env bash
# Started with SIGCHLD ignored, as some supervisors leave it, programs hear how those end that they start.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_root "the plugin is to start"
deaf=("$PYTHON" -c 'import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])')
make_set --classes 1 --files 3
printf '#!/bin/sh\nexit 7\n' >"$T/ends-with-7"
chmod +x "$T/ends-with-7"
SAMPAN_KEEPER="$T/ends-with-7" refused 1 "the daemon ended with code 7" \
    "${deaf[@]}" "$S" mount "file://$SRC" "$MNT" --cache "ssd:$CACHE=1GiB"
nothing_left

"${deaf[@]}" "$SAMPAN_BUILD/bin/sampan-csi" --endpoint "unix://$T/csi.sock" --node-id a --state "$T/state" \
    --run-dir "$T/run-csi" --cache-dir "$T/cache-csi" --sampan "$S" >"$T/log/csi" 2>&1 &
plugin=$!
on_exit "kill $plugin"
until_true 20 test -S "$T/csi.sock" || fail "no plugin: $(cat "$T/log/csi")"
ignored=$(awk '/^SigIgn:/ { print $2 }' "/proc/$plugin/status")
expect "SIGCHLD is ignored" $((0x$ignored >> 16 & 1)) 0
kill "$plugin"
wait "$plugin" || fail "the plugin ends with $?: $(cat "$T/log/csi")"
