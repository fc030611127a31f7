#!/usr/bin/env bash
# doctor --gc names the cache folders that no mount uses, whose they are and how large; what is mounted, and what is no cache, it
# leaves alone, and of what a writable mount left it does not say that it may go.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
make_set --classes 2 --files 5 --size 200000
base=$T/caches
mkdir "$T/other" "$T/out" && cp -r "$SRC/class-000" "$T/other"
gc() { sampan doctor --gc --cache-dir "$base" >"$T/said" || true; } # its exit code is of all of this machine
unused() { grep -c "^note .*cache folder that no mount uses" "$T/said" || true; }

gc
grep -q "^ok .*no cache folder is unused: $base" "$T/said" || fail "$(cat "$T/said")"
sampan mount "file://$SRC" "$MNT" --cache-dir "$base"
sampan warmup "$MNT" >"$T/warm"
mkdir "$base/no-cache" && echo x >"$base/no-cache/file"
gc
expect "unused while it is mounted" "$(unused)" 0
unmount
gc
expect "unused after that" "$(unused)" 1
for folder in version-1 apart-1; do # as the driver keeps those of a pinned version, or with other keys
    mkdir "$base/$folder" && mv "$base"/file-* "$base/$folder"
    gc
    expect "unused in $folder" "$(unused)" 1
    mv "$base/$folder"/file-* "$base"
done
gc
grep -E "file://$SRC/, (1\.[0-9]|2\.[0-9]) MiB, last changed 20[0-9-]* .rm -r $base/[^ ]* frees it; mounted again" "$T/said" >"$T/line" || fail "$(cat "$T/said")"
mount_set "file://$T/other" # a cache elsewhere is none of these
gc
expect "unused beside it" "$(unused)" 1
unmount
sampan mount "file://$SRC" "$MNT" --cache-dir "$base"
expect "what it finds there" "$(status cache.samples)" 10
unmount

sampan mount "file://$T/out" "$MNT" --writable --cache-dir "$base"
echo kept >"$MNT/file"
unmount
sampan doctor --gc --cache-dir "$base" --json >"$T/json" || true
"$PYTHON" - "$T/json" <<'END' || fail "$(cat "$T/json")"
import json
import sys

found = [f for f in json.load(open(sys.argv[1]))["findings"] if f["what"] == "cache folder that no mount uses"]
assert len(found) == 2 and all(f["verdict"] == "note" for f in found), found
outputs, = [f for f in found if "-writable: " in f["where"]]
assert "not stored yet" in outputs["cure"] and "rm" not in outputs["cure"], outputs
END
# The command it gives is one that a shell takes.
odd="$T/own caches of \$me, 'now'"
mv "$base" "$odd"
sampan doctor --gc --cache-dir "$odd" >"$T/said" || true
sed -n 's/.*(\(rm -r .*\) frees it; mounted again.*/\1/p' "$T/said" >"$T/cure"
expect "cures" "$(wc -l <"$T/cure")" 1
sh "$T/cure"
expect "left of the samples' caches" "$(find "$odd" -maxdepth 1 -name 'file-*' ! -name '*-writable' | wc -l)" 0
touch "$T/no-folder"
sampan doctor --gc --cache-dir "$T/no-folder" >"$T/said" || true
grep -q "^wrong .*the folder of caches cannot be read" "$T/said" || fail "$(cat "$T/said")"
nothing_left
