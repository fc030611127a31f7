#!/usr/bin/env bash
# The plugin of kubectl asks for what it was told, whatever characters are in it, and refuses the rest by name. A
# kubectl of the test's own keeps what it is asked.
. "$SAMPAN_TESTS/lib/common.sh"
mkdir "$T/bin"
cat >"$T/bin/kubectl" <<'K'
#!/usr/bin/env bash
printf '%s\n' "$@" >"$ASKED/words"
[[ " $* " != *" -f - "* ]] || cat >"$ASKED/object"
case " $* " in
*samplejob*status.phase*)
    case $(cat "$ASKED/state") in
    gone) echo 'samplejobs "flowers-warmup-x7k" not found' >&2 && exit 1 ;;
    *) cat "$ASKED/state" ;;
    esac
    ;;
*" get sampleset "*partitions*) cat "$ASKED/pod" ;;
*create*generateName* | *create*) echo flowers-warmup-x7k ;;
esac
K
chmod +x "$T/bin/kubectl"
export ASKED=$T/asked PATH="$T/bin:$PATH"
mkdir "$ASKED"
plugin=$SAMPAN_TESTS/../deploy/kubectl/kubectl-sampan
words() { tr '\n' ' ' <"$ASKED/words"; }
object() { field "$1" <"$ASKED/object"; }

for ask in "" help "top --help" "submit x -h"; do
    # shellcheck disable=SC2086
    expect "what '$ask' is told" "$("$plugin" $ask | head -1)" "kubectl sampan: sets of samples and the jobs on them"
done
"$plugin" status -n team
expect "status" "$(words)" "-n team get samplesets "
echo flowers-runtime-0 >"$ASKED/pod"
"$plugin" logs flowers --partition 1 -f --context=other
expect "logs" "$(words)" "--context=other logs flowers-runtime-1 -f "
echo flowers-v2-b0f60e31-runtime-0 >"$ASKED/pod" # a host's name has no dots, and no more than 63 characters
"$plugin" logs flowers.v2 --partition 3
expect "logs of a name with a dot" "$(words)" "logs flowers-v2-b0f60e31-runtime-3 "
"$plugin" logs flowers.v2
expect "all of them" "$(words)" "logs -l name=flowers-v2-b0f60e31-runtime --prefix --tail=-1 --max-log-requests=100 "
: >"$ASKED/pod"
code=0
"$plugin" logs flowers 2>"$T/err" || code=$?
expect "no servers" "$code $(cat "$T/err")" "1 kubectl sampan: flowers: has no servers yet (kubectl sampan status flowers says why)"
odd="a \"b\"/\$(touch $T/ran)/'c'\\d"
"$plugin" warmup flowers "$odd" --verify >"$T/out"
expect "its name" "$(cat "$T/out")" "samplejob/flowers-warmup-x7k"
expect "set" "$(object spec.sampleSetRef.name) $(object spec.type) $(object spec.warmupOptions.verify)" "flowers warmup true"
expect "path" "$(object spec.warmupOptions.paths.0)" "$odd"
"$plugin" warmup "$(printf 'f%.0s' {1..39}).b" >"$T/out" # a name's part cannot begin with '-'
expect "what names begin with" "$(object metadata.generateName)" "$(printf 'f%.0s' {1..39})-warmup-"
waited() { # STATE CODE TEXT
    local code=0
    echo "$1" >"$ASKED/state"
    timeout 600 "$plugin" warmup flowers --wait >"$T/out" 2>"$T/err" || code=$?
    expect "exit code of a warmup that is $1" "$code" "$2"
    expect "what is said of a warmup that is $1" "$(cat "$T/err")" "$3"
}
waited "Succeeded: " 0 ""
waited "Failed: 3 samples are gone" 1 "kubectl sampan: flowers-warmup-x7k: Failed: 3 samples are gone"
waited "Cancelled: spec.terminate" 1 "kubectl sampan: flowers-warmup-x7k: Cancelled: spec.terminate"
waited gone 1 'samplejobs "flowers-warmup-x7k" not found'
"$plugin" submit mnist --image "repo/train:1" --workers 2 --ps 1 --tensorboard /logs -n team -- python train.py "--title=$odd" -n
expect "kind" "$(object kind) $(object metadata.name) $(object spec.style)" "TrainingJob mnist tensor"
expect "tasks" "$(object spec.trainer.min-instance) $(object spec.pserver.min-instance) $(object spec.tensorboard.logdir)" "2 1 /logs"
object spec.trainer.entrypoint >"$T/entry"
expect "a shell reads the words that were given" "$(bash -c "printf '%s|' $(cat "$T/entry")")" "python|train.py|--title=$odd|-n|"
"$plugin" delete mnist other
expect "delete" "$(words)" "delete trainingjob mnist other "
[ ! -e "$T/ran" ] || fail "a word was run"

no() { # TEXT WORDS…
    local text=$1 code=0
    shift
    rm -f "$ASKED/words"
    "$plugin" "$@" >"$T/out" 2>"$T/err" || code=$?
    expect "exit code of $*" "$code" 2
    grep -qF -- "$text" "$T/err" || fail "$*: $(cat "$T/err")"
    [ ! -e "$ASKED/words" ] || fail "$*: kubectl was asked all the same"
}
no "no such command" explode
no 'want a name' status 'a;b'
no 'want a name' warmup
no 'want a name' delete mnist ../x
no "no such option" warmup flowers --fast
no "control character" warmup flowers $'a\nb'
no "--image is missing" submit mnist --workers 1 -- true
no "want a number from 1" submit mnist --image i --workers 0 -- true
no "no command" submit mnist --image i --workers 1
no "wants a value" submit mnist --image
no "wants a value" status -n
