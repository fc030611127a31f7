#!/usr/bin/env bash
# Ranks that were not given the same end before the first step, all of them, with the option and both values; and so do
# ranks that cannot meet: one of another number of ranks, one that says where it is and dies, one that never answers.
. "$SAMPAN_TESTS/lib/common.sh"
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
"$SAMPAN_BUILD/tools/make-pictures" "$T/pictures" 2 8 16 16
"$SAMPAN_BUILD/tools/make-pictures" "$T/fewer" 2 7 16 16
"$SAMPAN_BUILD/tools/make-pictures" "$T/more" 3 8 16 16
cp -r "$T/pictures" "$T/renamed"
for class in "$T/renamed"/*; do
    mv "$class" "$class-renamed"
done
program=$TRAIN second=$TRAIN # of rank 1
trains() { "$program" --device cpu --model softmax --image 8 --batch_size 4 --rendezvous "file://$T/place" --log_level error "$@"; }
differs() { # CODES TEXT-OF-RANK-0 TEXT-OF-RANK-1 OPTIONS-OF-RANK-1… (--first OPTIONS-OF-RANK-0)
    local codes=$1 of0=$2 of1=$3 code0=0 code1=0
    shift 3
    rm -f "$T/place"
    trains --data "$T/pictures" --trainer_id 0 --num_gradient_servers 2 "${first[@]}" >"$T/0" 2>&1 &
    local pid=$!
    program=$second trains --data "$T/pictures" --trainer_id 1 --num_gradient_servers 2 "$@" >"$T/1" 2>&1 || code1=$?
    wait "$pid" || code0=$?
    expect "exit codes with $*" "$code0 $code1" "$codes"
    grep -q -- "^sampan-train: $of0" "$T/0" || fail "rank 0 beside $*: $(cat "$T/0")"
    grep -q -- "^sampan-train: $of1" "$T/1" || fail "rank 1, $*: $(cat "$T/1")"
}
first=()
while read -r option value at_first; do
    differs "2 2" "$option differs on rank 1 from rank 0" "$option is $value on rank 1, and $at_first on rank 0" "$option" "$value"
done <<'ROWS'
--seed 7 1
--learning_rate 0.1 0.01
--optimizer lars momentum
--batch_size 3 4
--saving_period_by_batches 3 0
--sampler sequence (none)
--num_passes 2 1
ROWS
differs "2 2" "--save_dir differs on rank 1" "--save_dir is given on rank 1, and not given on rank 0" --save_dir "$T/saves"
[ ! -e "$T/saves" ] || fail "something was saved"
differs "2 2" "rank 1 has more or fewer samples in --data than rank 0" "rank 1 has 14 samples in --data, rank 0 has 16" --data "$T/fewer"
cp -r "$T/pictures" "$T/others"
one=$(find "$T/others" -type f | sort | sed -n 3p)
mv "$one" "${one%/*}/another.jpg"
differs "2 2" "rank 1 has other samples in --data than rank 0 (see" "rank 1 has other samples in --data than rank 0, though as many" --data "$T/others"
differs "2 2" "rank 1 has classes of other names than rank 0" "rank 1 has classes of other names than rank 0" --data "$T/renamed"
differs "2 2" "rank 1 has another model than rank 0" "rank 1 has another model than rank 0: 2 parameters" --data "$T/more"
# Servers know models alone: trainers compare the rest, those that wait for nobody, too.
net=127.$((1 + $$ % 250)).$((1 + $$ / 250 % 250)).1
served() { # TEXT-OF-RANK-0 TEXT-OF-RANK-1 DATA-OF-RANK-1
    "$TRAIN" pserver --address $net --num_gradient_servers 2 --log_level error >"$T/server" 2>&1 &
    local server=$!
    differs "2 2" "$1" "$2" --data "$3" "${first[@]}"
    ! wait $server || fail "the server thinks that all was well"
}
for mode in "" --async; do
    first=(--local=0 --pservers $net $mode)
    served "rank 1 has more or fewer samples" "rank 1 has 14 samples in --data, rank 0 has 16" "$T/fewer"
    served "rank 1 has other samples in --data" "rank 1 has other samples in --data than rank 0, though as many" "$T/others"
    served "rank 1 has classes of other names" "rank 1 has classes of other names than rank 0" "$T/renamed"
done
first=()

# Of another version of the program.
version=$("$TRAIN" --version | cut -d' ' -f2)
LC_ALL=C sed "s/\b${version//./\\.}\b/${version//[0-9]/9}/g" "$TRAIN" >"$T/other-version"
chmod +x "$T/other-version"
"$T/other-version" --version | has "${version//[0-9]/9}"
second=$T/other-version
differs "2 2" "sampan-train differs on rank 1 from rank 0" "sampan-train is ${version//[0-9]/9}, protocol [0-9]* on rank 1, and $version, protocol [0-9]* on rank 0"
second=$TRAIN
first=(--test_data "$T/pictures" --save_dir "$T/saves")
differs "2 2" "--save_dir differs on rank 1" "--save_dir is not given on rank 1, and given on rank 0" --test_data "$T/pictures"
first=()
differs "1 2" "rank 1 of 2 has died or ended" "rendezvous: rank 1 is one of 3, and rank 0 .* one of 2" --num_gradient_servers 3
(unset RANK; WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 refused 2 "not which one this is" trains --data "$T/pictures" | sed 's/^/    /')

# A SPEC may say what the job knows.
first=(--sampler "torch-distributed,seed=3,ranks=2,rank=0")
differs "2 2" "--num_passes differs on rank 1" "--num_passes is 2 on rank 1, and 1 on rank 0" --sampler "torch-distributed,ranks=2,rank=1,seed=3" --num_passes 2
first=()

# What rank 1 says of itself is not so, or no longer.
cat >"$T/fake.py" <<'PY'
import socket, struct, sys, time
place, dies = sys.argv[1], sys.argv[2] == "dies"
while True:
    try:
        host, port = open(place).read().strip().rsplit(":", 1)
        break
    except OSError:
        time.sleep(0.02)
link = socket.create_connection((host, int(port)))


def ask(op, key=b"", value=b""):
    link.sendall(struct.pack("<BIII", op, 1, len(key), len(value)) + key + value)
    head = link.recv(13, socket.MSG_WAITALL)
    _, _, of_key, of_value = struct.unpack("<BIII", head)
    return link.recv(of_key + of_value, socket.MSG_WAITALL)[of_key:]


ask(1)
address = ask(3, b"0")
ask(2, b"1", address[:2] + b"\xff\xff" + address[4:])  # another port, at which nobody is: rank 0 waits to be called
if not dies:
    link.recv(1)  # until rank 0 has ended
PY
for how in dies stays; do
    rm -f "$T/place"
    "$PYTHON" "$T/fake.py" "$T/place" $how &
    fake=$!
    text="rank 1 of 2 has died or ended"
    [ $how = dies ] || text="has not reached all of 2 ranks within --rendezvous_timeout"
    refused 1 "$text" timeout 60 "$TRAIN" --device cpu --model softmax --image 8 --data "$T/pictures" --log_level error \
        --rendezvous "file://$T/place" --rendezvous_timeout 2s --trainer_id 0 --num_gradient_servers 2
    wait $fake || true
done
