#!/usr/bin/env bash
# POST /v1/samples:batch by hand: samples in the order of the request, ranges, what is not here, what is an
# error, all summed; another version is 409, nonsense 400, no token 401; nothing is fetched for it. What can't be
# read any more when it is sent breaks the answer off.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
make_set --classes 1 --files 4 --size 150000..200000
head -c 9000000 /dev/urandom >"$SRC/class-000/large.bin"
seq 1 60000 >"$SRC/class-000/text" # compressed where it is kept
mount_set "file://$SRC"
start_serve
expect_code 200 GET /v1/catalog/current
cp "$T/answer" "$T/catalog"
meta() { "$PYTHON" -c "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('select value from meta where key=?', (sys.argv[2],)).fetchone()[0])" "$T/catalog" "$1"; }
V=$(meta digest)
I=$(printf %x "$(meta ids)")
batch() { echo "{\"version\":\"${3:-$V}\",\"ids\":\"${2:-$I}\",\"samples\":[$1]}"; }
check() { # WANTED: a line a sample: STATUS [PATH OFFSET LENGTH]
    "$PYTHON" - "$T/answer" "$SRC/class-000" <<PY || fail "the answer is not as wanted"
import struct, sys
data, at = open(sys.argv[1], "rb").read(), 16
def crc32c(b):
    c = 0xFFFFFFFF
    for x in b:
        c = table[(c ^ x) & 255] ^ c >> 8
    return c ^ 0xFFFFFFFF
table = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    table.append(i)
wanted = """$1""".strip().splitlines()
assert struct.unpack("<4sIQ", data[:16]) == (b"SPB1", len(wanted), 0), data[:16]
for i, want in enumerate(wanted):
    status, length, crc, index = struct.unpack("<4I", data[at:at + 16])
    body, at = data[at + 16:at + 16 + length], at + 16 + length
    want = want.split()
    assert (status, index) == (int(want[0]), i), (i, status, index, body[:100])
    assert crc == crc32c(body), i
    if status == 0:
        whole = open(sys.argv[2] + "/" + want[1], "rb").read()
        assert body == whole[int(want[2]):int(want[2]) + int(want[3])], (i, length)
assert at == len(data)
PY
}
id() { stat -c %i "$MNT/class-000/$1"; }
expect_code 200 POST /v1/samples:batch -d "$(batch "{\"id\":$(id large.bin),\"length\":100},{\"id\":$(id text),\"offset\":1,\"length\":2}")"
check "1
1"
warm_all
expect_code 200 POST /v1/samples:batch -d "$(batch "{\"id\":$(id text)},{\"id\":$(id 000001.bin)},{\"id\":$(id large.bin),\"offset\":4194000,\"length\":1000},{\"id\":$(id 000000.bin),\"offset\":149000,\"length\":999999},{\"id\":$(id large.bin)},{\"id\":99999,\"length\":5},{\"id\":1}")"
check "0 text 0 999999
0 000001.bin 0 999999
0 large.bin 4194000 1000
0 000000.bin 149000 999999
2
1
2"
expect_code 409 POST /v1/samples:batch -d "$(batch '{"id":3}' 1)"
expect_code 409 POST /v1/samples:batch -d "$(batch '{"id":3}' "$I" "$(printf '0%.0s' $(seq 64))")"
for bad in '{' '{}' '[]' "$(batch '{"id":0}')" "$(batch '{"id":3,"path":"x"}')" "$(batch '{"id":"3"}')" \
    "$(batch '' zz)" "$(batch "$(printf '{"id":3},%.0s' $(seq 64)){\"id\":3}")"; do
    expect_code 400 POST /v1/samples:batch -d "$bad"
done
BEARER=wrong expect_code 401 POST /v1/samples:batch -d "$(batch '{"id":3}')"
expect_code 404 GET /v1/catalog/nothing
# In whatever order the units came, that ends in one of the two of 4 MiB.
find "$CACHE" -name '*.pack' -exec truncate -s 3000000 {} +
whole=0 torn=0
for range in "$(id 000000.bin)" "$(id 000001.bin)" "$(id 000002.bin)" "$(id 000003.bin)" \
    "$(id large.bin),\"offset\":0,\"length\":4194304" "$(id large.bin),\"offset\":4194304,\"length\":4194304" \
    "$(id large.bin),\"offset\":8388608,\"length\":600000"; do
    if ask POST /v1/samples:batch -d "$(batch "{\"id\":$range}")"; then whole=$((whole + 1)); else torn=$((torn + 1)); fi
done
[ "$torn" -ge 1 ] || fail "bytes that are gone were sent"
[ "$whole" -ge 1 ] || fail "one pack's end ended all"
stop_serve
unmount
