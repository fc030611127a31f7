#!/usr/bin/env bash
# Programs that jump about in files: a database, an archive, a repository, mapped arrays, tail.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
mkdir -p "$SRC/data"
"$PYTHON" - "$SRC/data" <<'PY'
import os, random, sqlite3, sys, zipfile
top = sys.argv[1]
rng = random.Random(7)
db = sqlite3.connect(f"{top}/set.db")
db.execute("create table t(id integer primary key, word text, data blob)")
db.executemany("insert into t values(?, ?, ?)", ((i, f"w{rng.randrange(10**6)}", rng.randbytes(300)) for i in range(20000)))
db.execute("create index by_word on t(word)")
db.commit()
with zipfile.ZipFile(f"{top}/set.zip", "w", zipfile.ZIP_DEFLATED) as z:
    for i in range(300):
        z.writestr(f"member-{i}", rng.randbytes(100) * rng.randrange(1, 400))
with open(f"{top}/array.bin", "wb") as f:
    f.write(rng.randbytes(9 << 20))
PY
if command -v git >/dev/null; then
    git init -q "$T/repo"
    for i in 1 2 3 4 5; do
        seq $((i * 1000)) >"$T/repo/file"
        git -C "$T/repo" add file
        git -C "$T/repo" -c user.name=t -c user.email=t@t commit -qm "$i"
    done
    git clone -q --bare "$T/repo" "$SRC/repo.git"
fi
mount_set "file://$SRC" --memory 64MiB
"$PYTHON" - "$SRC/data" "$MNT/data" <<'PY'
import mmap, os, random, sqlite3, sys, zipfile
src, mnt = sys.argv[1:]
ask = "select count(*), sum(length(data)), min(word), max(word) from t"
one = lambda top, sql: sqlite3.connect(f"file:{top}/set.db?mode=ro&immutable=1", uri=True).execute(sql).fetchall()
assert one(src, ask) == one(mnt, ask)
for word in ("w5%", "w77%"):
    sql = f"select id, hex(data) from t where word like '{word}' order by word limit 500"
    assert one(src, sql) == one(mnt, sql), word
assert one(mnt, "pragma integrity_check") == [("ok",)]
with zipfile.ZipFile(f"{mnt}/set.zip") as z:
    assert z.testzip() is None and len(z.namelist()) == 300
want = open(f"{src}/array.bin", "rb").read()
with open(f"{mnt}/array.bin", "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
    rng = random.Random(3)
    for _ in range(400):
        at = rng.randrange(len(want))
        assert m[at:at + 5000] == want[at:at + 5000], at
PY
cmp <(tail -c 100000 "$SRC/data/array.bin") <(tail -c 100000 "$MNT/data/array.bin")
if [ -d "$SRC/repo.git" ]; then
    git clone -q "$MNT/repo.git" "$T/clone" # hard links and locks are refused: git copies
    cmp "$T/repo/file" "$T/clone/file"
    git --git-dir "$MNT/repo.git" -c safe.directory='*' fsck --full >"$T/fsck" 2>&1 || fail "git fsck: $(cat "$T/fsck")"
fi
unmount
