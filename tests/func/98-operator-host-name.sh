#!/usr/bin/env bash
# The operator leads under its host's name, however long the kernel lets that be.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/operator.sh"
need_root "the name of the host is another one"
cat >"$T/named" <<'SH'
#!/bin/sh
exec unshare -u sh -c 'echo "$NAMED" >/proc/sys/kernel/hostname; exec "$TOY" "$@"' named "$@"
SH
chmod +x "$T/named"
operator_python <<'PY'
kube = Kube()
for length in (1, 63, 64):
    os.environ["NAMED"] = "n" * length
    op = Operator(kube, f"of-{length}", program=f"{T}/named")
    until(lambda: f"leads: {op.log()}", lambda: kube.leader().startswith("n" * length + "_"))
    op.stop()
PY
