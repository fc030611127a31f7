#!/bin/bash
# What each pod of a job like deploy/examples/paddle-cluster-job.yaml runs: the job's environment says the rest. Mount
# another file over it for other options, or give the container a command of its own.
cd "${0%/*}"
exec sampan-train launch --config=./trainer_config.py --trainer_count="${TRAINER_COUNT:-4}" --num_passes=10 \
    --use_gpu=0 --log_period=50 --dot_period=10 --saving_period=1 --local=0 "$@"
