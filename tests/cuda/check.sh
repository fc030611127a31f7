#!/bin/bash
# check.sh WHEELS BUILD: the checks of `make cuda`. Each prints what it did, or why it was skipped.
set -eu -o pipefail
wheels=$1 build=$2

headers() { # the include folders below the wheels
    find "$wheels" -type d -name include -path '*nvidia*' -not -path '*/cccl/*' 2>/dev/null
    find "$wheels" -type d -path '*include/cccl' 2>/dev/null
}

if [ -z "$(headers)" ]; then
    echo "cuda: fetching the vendor's headers and compiler into $wheels (1.4 GB)"
    if ! python3 -m pip install -q --no-deps --no-compile --target "$wheels" -r tests/cuda/wheels.txt; then
        rm -rf "$wheels"
        echo "cuda: SKIPPED abi and kernels: the wheels of tests/cuda/wheels.txt could not be fetched"
    fi
fi
if [ -n "$(headers)" ]; then
    flags=()
    while read -r folder; do
        flags+=("-isystem" "$folder")
    done < <(headers)
    c++ -std=c++17 -fsyntax-only -Wno-deprecated-declarations "${flags[@]}" -Itrainer tests/cuda/abi.cc
    echo "cuda: abi: $(grep -c '^FN(' trainer/cuda-lib.def) functions are declared as the vendor declares them"
    nvrtc=$(dirname "$(find "$wheels" -name 'libnvrtc.so.*' -print -quit)")
    "$build/tools/compile-kernels" "$(realpath "$nvrtc")" | sed 's/^/cuda: kernels: /'
fi

"$(dirname "$0")/run.sh" "$build"
