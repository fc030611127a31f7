# Sourced by `run`: what the trainer learns beside PyTorch and Paddle, from the same first numbers and the same samples in the same
# order: rates, losses of 100 steps, parameters, running statistics, averages. A minute of two idle cores.

training() { # NAME MODULE
    if "$loaders/bin/python" -c "import PIL, numpy, $2" 2>/dev/null; then
        SAMPAN_LOADER_LIBRARY=$(dirname "$SAMPAN")/../lib/libsampan-loader.so.0 PYTHONPATH=$PWD/python "$loaders/bin/python" -B -W ignore \
            tests/conformance/training.py "$3" "$(dirname "$SAMPAN")/sampan-train" "$T/training-$3" 2>"$T/training.err" ||
            { tail -3 "$T/training.err"; false; }
        result "$1: the trainer's curves are its curves" $?
    else
        skipped "training beside $1" "its Python package is not installed (LOADERS=1 fetches it; large)"
    fi
}
training PyTorch torchvision torch
training Paddle paddle paddle
