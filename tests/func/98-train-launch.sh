#!/usr/bin/env bash
# Three pods of one batch/v1 Job find each other by the API server, number themselves alike, fetch their part of the data
# from the shared folder and train with each other's parameter servers; the layout on the share is the promised one.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/ratings.sh"
TRAIN="$SAMPAN_BUILD/bin/sampan-train"
net=127.$((1 + $$ % 250)).$((1 + $$ / 250 % 250)) # addresses of this test alone
job="$T/share/paddle-cluster-job"
make_ratings "$SRC"

expect "what split says" "$("$TRAIN" split --parts 3 "$SRC" "$job")" "600 samples in 3 parts"
expect "lines of the parts" "$(cat "$job"/data/?/ratings.list | sort | md5sum)" "$(sort "$SRC/ratings.dat" | md5sum)"
refused 1 "data/0: File exists" "$TRAIN" split --parts 3 "$SRC" "$job"
mkdir "$job/recommendation"
cat >"$job/recommendation/trainer_config.py" <<'PY'
# Python reads this, too.
model = "movie"
data = "./data"
batch_size = 20
PY

"$PYTHON" "$SAMPAN_TESTS/servers/kube.py" --ready "$T/kube.port" --log "$T/kube.log" &
on_exit "kill $!"
until_true 30 test -s "$T/kube.port" || fail "no API server"
api=http://127.0.0.1:$(cat "$T/kube.port")/api/v1/namespaces/default/pods
cat >"$T/kubeconfig" <<YAML
{"apiVersion": "v1", "kind": "Config", "current-context": "t", "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
 "clusters": [{"name": "t", "cluster": {"server": "http://127.0.0.1:$(cat "$T/kube.port")"}}], "users": [{"name": "t", "user": {"token": "test"}}]}
YAML
pod() { # NAME JOB PHASE IP
    local at=(-sS -f -o "$T/curl.out" -H "Authorization: Bearer test")
    curl "${at[@]}" -H "Content-Type: application/json" -X POST "$api" -d '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"'"$1"'","labels":{"job-name":"'"$2"'"}},"spec":{}}'
    curl "${at[@]}" -X PATCH -H "Content-Type: application/merge-patch+json" "$api/$1/status" -d '{"status":{"phase":"'"$3"'","podIP":"'"$4"'"}}'
}
launch() { # IP [OPTIONS…]
    local ip=$1
    shift
    mkdir -p "$T/pod-$ip"
    env --ignore-signal=CHLD JOB_NAME=paddle-cluster-job JOB_PATH="$T/share" JOB_NAMESPACE=default TRAIN_CONFIG_DIR=recommendation CONF_PADDLE_NIC=eth0 \
        CONF_PADDLE_PORT=7164 CONF_PADDLE_PORTS_NUM=2 CONF_PADDLE_PORTS_NUM_SPARSE=2 CONF_PADDLE_GRADIENT_NUM=3 POD_IP="$net.$ip" \
        KUBECONFIG="$T/kubeconfig" "$TRAIN" launch --work "$T/pod-$ip" --poll 100ms "$@" >"$T/pod-$ip.out" 2>"$T/pod-$ip.log" &
    pods[ip]=$!
    on_exit "kill $!"
}
ended() { # IP CODE
    local code=0
    wait "${pods[$1]}" || code=$?
    [ "$code" = "$2" ] || fail "pod $1: exit code $code, want $2: $(tail -n 5 "$T"/pod-*.log "$job"/output/node_?/*.log)"
}
said() { # IP TEXT
    grep -q -- "$2" "$T/pod-$1.log"
}

# One pod of the job is missing, one of them has failed, one is another job's.
pod a paddle-cluster-job Running "$net.10"
pod b paddle-cluster-job Running "$net.2"
pod c paddle-cluster-job Failed "$net.7"
pod other another-job Running "$net.9"
words=(--config=./trainer_config.py --trainer_count=1 --num_passes=2 --use_gpu=0 --log_period=5 --dot_period=10 --saving_period=1 --local=0)
for ip in 10 2; do
    launch $ip "${words[@]}"
done
until_true 60 said 10 "2 of 3 pods run" || fail "$(cat "$T/pod-10.log")"
pod d paddle-cluster-job Running "$net.3"
launch 3 "${words[@]}"
for ip in 10 2 3; do
    ended $ip 0
    said $ip "--pservers=$net.10,$net.2,$net.3\$" || fail "another order: $(cat "$T/pod-$ip.log")"
done
# Numbers are those of the sorted texts: .10 before .2.
said 10 "trainer_id 0 ($net.10)" && said 2 "trainer_id 1 ($net.2)" && said 3 "trainer_id 2 ($net.3)" || fail "$(grep -h trainer_id "$T"/pod-*.log)"
expect "the share" "$(cd "$job/output" && find . -maxdepth 2 -name '*.log' -o -maxdepth 2 -name done | sort | tr '\n' ' ')" \
    "./node_0/server.log ./node_0/train.log ./node_1/server.log ./node_1/train.log ./node_2/server.log ./node_2/train.log ./pass-00000/done ./pass-00001/done "
want="--nics=eth0 --port=7164 --ports_num=2 --comment=paddle_process_by_paddle --pservers=$net.10,$net.2,$net.3 --ports_num_for_sparse=2 ${words[*]} --trainer_id=0 --save_dir=$job/output"
head -n 1 "$job/output/node_0/train.log" | has -F -- "$want" || fail "its first line: $(head -n 1 "$job/output/node_0/train.log")"
grep -q "pserver 5 $net.3:7165" "$job/output/node_0/train.log" || fail "not six servers: $(grep pserver "$job/output/node_0/train.log")"
grep -q "Pass=1 done: Batch=10 samples=600" "$job/output/node_0/train.log" || fail "not all samples: $(grep done: "$job/output/node_0/train.log")"
cmp "$job/output/node_0/train.log" "$T/pod-10.out" || fail "the pod's own log lacks what its trainer said"
expect "its part" "$(md5sum <"$T/pod-2/data/ratings.list")" "$(md5sum <"$job/data/1/ratings.list")"

# A pod that nobody reaches is named by the others.
for ip in 10 2; do
    launch $ip --reach 2s "${words[@]}"
done
for ip in 10 2; do
    ended $ip 1
    grep -q "^sampan-train: launch: $net.$ip does not reach $net.3 port 7164: Connection refused" "$T/pod-$ip.log" || fail "$(cat "$T/pod-$ip.log")"
done
launch 77 "${words[@]}"
ended 77 1
said 77 "launch: $net.77 is none of the addresses of job paddle-cluster-job" || fail "$(cat "$T/pod-77.log")"
