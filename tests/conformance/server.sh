# Sourced by `run`: the runtime server's metrics and its page, judged by programs from outside.
#
#   SCHEMATHESIS_EXAMPLES=N   requests made up for each route (60)

promtool=$(command -v promtool || echo "$cache/prometheus/usr/bin/promtool")
if [ ! -x "$promtool" ] && command -v apt-get >/dev/null; then # from its package, which is not installed
    (cd "$cache" && apt-get download prometheus && dpkg-deb -x prometheus_*.deb prometheus && rm -f prometheus_*.deb) >"$cache/prometheus.log" 2>&1
fi
if [ ! -x "$promtool" ] && command -v go >/dev/null; then
    echo "building promtool (some minutes, once) ..."
    GOBIN="$cache/bin" timeout 1500 go install github.com/prometheus/prometheus/cmd/promtool@v0.53.5 >"$cache/promtool.log" 2>&1
    promtool=$cache/bin/promtool
fi
schemathesis=$cache/schemathesis
[ -x "$schemathesis/bin/schemathesis" ] ||
    { python3 -m venv "$schemathesis" && "$schemathesis/bin/pip" install -q --disable-pip-version-check schemathesis==4.32.5 openapi-spec-validator==0.9.0; } >"$cache/schemathesis.log" 2>&1
"$SAMPAN" mount "file://$T/src" "$T/mnt" --cache "ssd:$T/cache-server=1GiB"
token=conformance-token-of-enough-length
echo "$token" >"$T/token"
"$SAMPAN" serve --listen 127.0.0.1:0 --state "$T/serve" --token-file "$T/token" --mount "$T/mnt" 2>"$T/serve.log" &
children+=($!)
for _ in $(seq 200); do grep -q 'sampan serve: listening on port' "$T/serve.log" && break; sleep 0.1; done
server="http://127.0.0.1:$(sed -n 's/.*listening on port \([0-9]*\).*/\1/p' "$T/serve.log" | tail -n 1)"
if [ -x "$promtool" ]; then
    curl -s -H "Authorization: Bearer $token" "$server/metrics" | "$promtool" check metrics
    result "promtool check metrics" $?
else
    skipped promtool "no package and no Go compiler"
fi
if [ -x "$schemathesis/bin/openapi-spec-validator" ]; then
    "$schemathesis/bin/openapi-spec-validator" docs/openapi.yaml
    result "openapi-spec-validator: docs/openapi.yaml" $?
else
    skipped openapi-spec-validator "it can't be installed ($cache/schemathesis.log)"
fi
if [ -x "$schemathesis/bin/schemathesis" ]; then
    # /events never ends. What a schema cannot say (mounts that exist, cron expressions, numbers that fit)
    # may be refused though it is valid.
    page=$PWD/docs/openapi.yaml
    (cd "$T" && "$schemathesis/bin/schemathesis" run "$page" --url "$server" -H "Authorization: Bearer $token" \
        --checks all --exclude-checks positive_data_acceptance --exclude-path /events --phases examples,coverage,fuzzing \
        --max-examples "${SCHEMATHESIS_EXAMPLES:-60}" --generation-database none --seed 7 --no-color) >"$T/schemathesis.log" 2>&1
    code=$?
    [ $code = 0 ] || tail -n 120 "$T/schemathesis.log"
    result "schemathesis against docs/openapi.yaml" $code
else
    skipped schemathesis "it can't be installed ($cache/schemathesis.log)"
fi
"$SAMPAN" umount "$T/mnt"
