#!/usr/bin/env bash
# Paths of 1024 bytes and names of 255 bytes are read as any other; a name of 256 is too long.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
part=$(printf 'd%.0s' {1..101})
deep=$(printf "$part/%.0s" {1..9})
"$PYTHON" "$SAMPAN_TESTS/lib/make-set.py" "$SRC" \
    --spec "{\"${deep}$(printf 'f%.0s' $(seq $((1024 - ${#deep}))))\": 5000, \"c/$(printf 'n%.0s' {1..255})\": 4000}"
mount_set "file://$SRC"
same_tree "$SRC" "$MNT"
"$PYTHON" - "$MNT/c/$(printf 'n%.0s' {1..256})" <<'PY'
import errno, os, sys
for ask in (os.stat, os.open):
    try:
        ask(sys.argv[1], *([os.O_RDONLY] if ask is os.open else []))
    except OSError as e:
        assert e.errno == errno.ENAMETOOLONG, e
    else:
        raise AssertionError("found a name of 256 bytes")
PY
unmount
