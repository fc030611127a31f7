#!/usr/bin/env bash
# The demo reads every byte right, whatever its temporary folder is called, and leaves nothing there: not when it is
# ended in the middle either (Ctrl-C is answered by no word), nor when it is told so again while it cleans up. A web server that does not start is named.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_command nginx
export TOOLS="$SAMPAN_BUILD/tools" TMPDIR="$T/a b, {c} it's" DEMO_IMAGES=60 DEMO_READERS=2
mkdir "$TMPDIR"
demo=$SAMPAN_TESTS/../deploy/demo/demo.sh
"$demo" >"$T/said" 2>&1 || fail "the demo: $(cat "$T/said")"
grep -q "Every byte is equal" "$T/said" || fail "it says: $(cat "$T/said")"
expect "what is left" "$(ls -A "$TMPDIR")" ""

# The second time while it unmounts.
cat >"$T/again" <<SH
#!/usr/bin/env bash
[ "\$1" != umount ] || kill -TERM 0
exec "$S" "\$@"
SH
chmod +x "$T/again"
reading() { grep -qs "plain disk, first" "$T/said"; }
rm "$T/said" # else what the first said is looked at before there is a second
SAMPAN="$T/again" setsid "$demo" >"$T/said" 2>&1 &
until_true 60 reading
command kill -TERM -- "-$!"
code=0
wait $! || code=$?
[ $code = 130 ] || [ $code = 143 ] || fail "told to end, it exits with $code" # as what it waited for, if that ends first
expect "what is left" "$(ls -A "$TMPDIR")" ""

# Ctrl-C while it makes its pictures; a shell's background has it ignored.
rm "$T/said"
DEMO_IMAGES=20000 "$PYTHON" -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.setsid()
os.execv(sys.argv[1], sys.argv[1:])' "$demo" >"$T/said" 2>&1 &
until_true 60 grep -qs "^Making" "$T/said"
making() { [ -n "$(find "$TMPDIR" -name '*.png' -print -quit)" ]; }
until_true 60 making
command kill -INT -- "-$!"
code=0
wait $! || code=$?
expect "exit code of Ctrl-C" "$code" 130
expect "what it says then" "$(tail -n +2 "$T/said")" ""
expect "what is left" "$(ls -A "$TMPDIR")" ""

mkdir "$T/bin"
printf '#!/bin/sh\necho no such luck >&2\nexit 1\n' >"$T/bin/nginx"
chmod +x "$T/bin/nginx"
! PATH="$T/bin:$PATH" "$demo" >"$T/said" 2>&1 || fail "it works without a web server"
grep -q "web server does not answer: no such luck" "$T/said" || fail "it says: $(cat "$T/said")"
# One whose port has gone to somebody else meanwhile is given another.
cat >"$T/bin/nginx" <<SH
#!/bin/sh
[ -e "$T/tried" ] || { touch "$T/tried"; exit 1; }
exec $(command -v nginx) "\$@"
SH
PATH="$T/bin:$PATH" "$demo" >"$T/said" 2>&1 || fail "the demo: $(cat "$T/said")"
grep -q "Every byte is equal" "$T/said" || fail "it says: $(cat "$T/said")"
