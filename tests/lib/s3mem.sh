# A store in memory (servers/s3mem.py) that ends with the test.
#
#   start_s3mem      sets STORE, its address, and exports it and keys for it
#   store PATH       asks it: its own answers are below /_

start_s3mem() {
    mkfifo "$T/held" && exec 9<>"$T/held" # it lives as long as its standard input
    "$PYTHON" "$SAMPAN_TESTS/servers/s3mem.py" >"$T/server" <"$T/held" &
    on_exit "kill -9 $!; wait $!"
    until_true 20 grep -q listening "$T/server" || fail "the store does not start"
    STORE=http://127.0.0.1:$(sed 's/.* //' "$T/server")
    export AWS_ENDPOINT_URL=$STORE AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret AWS_REGION=us-east-1
}
store() { curl -fsS "$STORE$1"; }
