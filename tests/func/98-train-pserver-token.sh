#!/usr/bin/env bash
# Parameter servers and trainers that know one token learn together; who does not know it is refused on either side, and hears
# nothing of the job; the token itself never goes over the network.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/pservers.sh"
make_ratings "$SRC"
echo "a-secret-of-this-job-$$" >"$T/token"
echo "the-secret-of-another-job" >"$T/other"

# One that does not know it, and one that knows another, come before the right one: the job takes no harm.
for i in 1 2; do
    server $i --ps_token_file "$T/token"
done
trainer 0 --num_passes 2 --ps_token_file "$T/token"
trainer 1 --num_passes 2
ended "a trainer without the token" 1 "${trainers[1]}"
grep -q "^sampan-train: pserver $net.1:7164: this server wants to be shown a token (--ps_token_file)" "$T/trainer1.log" || fail "$(logs)"
trainer 1 --num_passes 2 --ps_token_file "$T/other"
ended "a trainer with another token" 4 "${trainers[1]}"
grep -q "^sampan-train: pserver $net.1:7164 does not know the token of --ps_token_file" "$T/trainer1.log" || fail "$(logs)"

# Strangers that know the protocol: the whole of what a refused one hears.
"$PYTHON" - "$net.1" "job $$" "$T/token" <<'PY' || fail "a stranger is not refused"
import hashlib, hmac, os, socket, struct, sys

HELLO, PULL, FETCH, ERROR, CHALLENGE, PROOF = 1, 2, 6, 11, 12, 13
table = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    table.append(i)


def crc32c(data):
    c = 0xFFFFFFFF
    for b in data:
        c = table[(c ^ b) & 255] ^ c >> 8
    return c ^ 0xFFFFFFFF


def frame(kind, payload):
    return struct.pack("<IHHII", 0x31535053, kind, 0, len(payload), crc32c(payload)) + payload


def answer(s):
    def take(n):
        out = b""
        while len(out) < n:
            part = s.recv(n - len(out))
            assert part, "it hung up without a word"
            out += part
        return out
    _, kind, _, length, _ = struct.unpack("<IHHII", take(16))
    return kind, take(length)


def hello(mode=1, rank=1):
    return struct.pack("<64sIIQII32s", sys.argv[2].encode(), rank, 2, 1, 0, mode, os.urandom(32))


def talk(*frames):
    with socket.create_connection((sys.argv[1], 7164), timeout=300) as s:
        got = []
        for f in frames:
            s.sendall(f)
            got.append(answer(s))
        assert s.recv(1) == b"", "it goes on after an error"
        return got


def refused(got, text):
    assert got[-1][0] == ERROR and text in got[-1][1], got


refused(talk(frame(HELLO, hello(0))), b"wants to be shown a token")
refused(talk(frame(PROOF, bytes(32))), b"a proof of nothing")
refused(talk(frame(HELLO, hello()), frame(PROOF, bytes(32))), b"does not know the token")
refused(talk(frame(HELLO, hello()), frame(PROOF, bytes(7))), b"a proof of nothing")
refused(talk(frame(HELLO, hello()), frame(HELLO, hello())), b"no possible kind")
refused(talk(frame(HELLO, hello()), frame(PULL, b"")), b"before the greeting")
refused(talk(frame(HELLO, hello()), frame(FETCH, bytes(24))), b"before the greeting")

# What the server proved, said back to it, is no proof; nor is the proof of another greeting.
with socket.create_connection((sys.argv[1], 7164), timeout=300) as s:
    s.sendall(frame(HELLO, hello()))
    kind, said = answer(s)
    assert kind == CHALLENGE and len(said) == 64, (kind, said)
    s.sendall(frame(PROOF, said[32:]))
    kind, why = answer(s)
    assert kind == ERROR and b"does not know" in why, why
secret, greeting = open(sys.argv[3]).read().strip().encode(), hello(rank=7)
with socket.create_connection((sys.argv[1], 7164), timeout=300) as s, socket.create_connection((sys.argv[1], 7164), timeout=300) as t:
    for c in s, t:
        c.sendall(frame(HELLO, greeting))
    first, second = answer(s)[1], answer(t)[1]
    assert first[:32] != second[:32], "the same challenge twice"
    assert first[32:] == hmac.digest(secret, b"sampan pserver" + greeting[-32:] + first[:32], "sha256"), "its own proof"
    proof = hmac.digest(secret, b"sampan trainer" + first[:32] + greeting, "sha256")
    t.sendall(frame(PROOF, proof))
    kind, why = answer(t)
    assert kind == ERROR and b"does not know" in why, why
    s.sendall(frame(PROOF, proof))  # the right one: so that it is the number that was refused, and this goes on to the rank
    kind, why = answer(s)
    assert kind == ERROR and b"trainer 7 of 2" in why, why
PY
grep -q "is refused: it does not know the token of this job (--ps_token_file)" "$T/pserver1.log" || fail "nobody says so: $(logs)"
trainer 1 --num_passes 2 --ps_token_file "$T/token"
all_ended 0 0
grep -q "done: step=40" "$T/trainer0.log" || fail "$(logs)"

# A server without the token, and one that pretends: a trainer gives it nothing.
server 1
server 2
trainer 0 --ps_token_file "$T/token"
ended "a trainer of a server without a token" 1 "${trainers[0]}"
grep -q "this server has no --ps_token_file" "$T/trainer0.log" || fail "$(logs)"
kill -9 "${servers[1]}" "${servers[2]}"
wait "${servers[1]}" "${servers[2]}" || true
"$PYTHON" - "$net.1" "$T/heard" <<'PY' &
import socket, sys
with socket.create_server((sys.argv[1], 7164)) as listener:
    s = listener.accept()[0]
    heard = s.recv(1 << 20)
    s.sendall(bytes.fromhex("535053310c00000040000000") + bytes.fromhex("67ebc803") + bytes(64)) # a challenge of zeros
    while part := s.recv(1 << 20):
        heard += part
open(sys.argv[2], "wb").write(heard)
PY
pretender=$!
trainer 0 --ps_token_file "$T/token"
ended "a trainer of a server that pretends" 4 "${trainers[0]}"
grep -q "does not know the token of --ps_token_file" "$T/trainer0.log" || fail "$(logs)"
wait $pretender || fail "the one that pretends"
[ "$(stat -c %s "$T/heard")" -gt 500 ] || fail "no greeting"
! grep -qF "a-secret-of-this-job" "$T/heard" || fail "the token went over the network"

# Files that hold no token.
echo short >"$T/short"
printf 'two words that are long\n' >"$T/blanks"
head -c 5000 /dev/zero | tr '\0' x >"$T/long"
for file in short blanks long; do
    for role in pserver ""; do
        # shellcheck disable=SC2086 # one word or none
        code=0
        "$TRAIN" $role --model movie --data "$SRC" --local=0 --pservers "$net.1" --num_gradient_servers 2 --trainer_id 0 \
            --ps_token_file "$T/$file" >"$T/out" 2>&1 || code=$?
        expect "exit code of $role with $file" "$code" 2
        grep -q "^sampan-train: --ps_token_file: $T/$file: want one line of 16 to 4096 characters without blanks" "$T/out" || fail "$(cat "$T/out")"
    done
done
code=0
SAMPAN_PS_TOKEN_FILE="$T/nowhere" "$TRAIN" pserver --num_gradient_servers 2 >"$T/out" 2>&1 || code=$?
expect "exit code without the file that the environment names" "$code" 3
