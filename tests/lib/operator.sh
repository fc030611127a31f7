# Sourced after common.sh by tests of the operator.
#
#   operator_python <<'PY'   runs a script with tests/lib/operator.py imported; it ends what it started
TOY=$SAMPAN_BUILD/tools/operator-toy
[ -x "$TOY" ] || skip "build/tools/operator-toy is not built (make tools)"
export T TOY

operator_python() {
    { echo 'import sys, os; sys.path.insert(0, os.environ["SAMPAN_TESTS"] + "/lib"); from operator_lib import *'
      cat; } >"$T/operator-test.py"
    timeout 150 "$PYTHON" "$T/operator-test.py"
}
