# Sourced after common.sh by tests of the operator.
#
#   operator_python <<'PY'   runs a script with tests/lib/operator.py imported; it ends what it started
TOY=$SAMPAN_BUILD/tools/operator-toy
[ -x "$TOY" ] || skip "build/tools/operator-toy is not built (make tools)"
export T TOY

operator_python() {
    { echo 'import sys, os; sys.path.insert(0, os.environ["SAMPAN_TESTS"] + "/lib"); from operator_lib import *'
      cat; } >"$T/operator-test.py"
    timeout 800 "$PYTHON" "$T/operator-test.py" # ends what hangs, and decides nothing else
}

# Runs the script again in namespaces of its own, where the names of runtime servers lead to 127.0.0.1:7716 and nobody
# else listens there; then operator_story is operator_python with the operator itself and tests/lib/operator_world.py.
own_world() { # NAME…
    need_root "names of servers are given addresses"
    need_command ip
    own_namespace -n
    OPERATOR=$SAMPAN_BUILD/bin/sampan-operator
    [ -x "$OPERATOR" ] || skip "build/bin/sampan-operator is not built"
    export OPERATOR
    ip link set lo up
    { sed '/runtime/d' /etc/hosts && printf '127.0.0.1 %s\n' "$@"; } >"$T/hosts"
    mount --bind "$T/hosts" /etc/hosts
    echo 0123456789abcdef0123456789abcdef >"$T/key"
}

operator_story() {
    { echo 'import sys, os; sys.path.insert(0, os.environ["SAMPAN_TESTS"] + "/lib"); from operator_world import *'
      cat; } >"$T/operator-test.py"
    timeout 880 "$PYTHON" "$T/operator-test.py"
}
