# shellcheck shell=bash
# Trainers whose samples hang: pictures in $SRC, the same in $MNT behind a proxy, which hold_up makes give those of the first class alone (the
# first six batches of 4). Source after need_mount.

"$SAMPAN_BUILD/tools/make-pictures" "$SRC" 4 24 48 40
start_nginx
start_proxy "$HTTP_URL"
mount_set "$PROXY_URL"
# shellcheck disable=SC2034 # for who sources this
options=(--device cpu --model mlp --image 8 --hidden 16 --batch_size 4 --num_passes 4 --workers 2 --log_period 1 --json --sampler sequence)

hold_up() {
    faults "stall-head key=class-001" "stall-head key=class-002" "stall-head key=class-003"
}

steps() { # LOG : how many LOG.json tells of
    grep -c '"event":"step"' "$T/$1.json" || true
}

has_made() { # LOG STEPS
    [ "$(steps "$1")" -ge "$2" ]
}

stands_still() { # LOG
    local before
    before=$(steps "$1")
    sleep 3
    [ "$(steps "$1")" = "$before" ]
}

until_held_up() { # LOG : it has made the steps that it has the samples of
    until_true 30 has_made "$1" 1 && until_true 60 stands_still "$1" || fail "it is not held up: $(tail -n 4 "$T/$1.log")"
}
