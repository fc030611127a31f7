#!/usr/bin/env bash
# A call whose request arrives while the plugin ends is answered, and holds the end up no longer than that.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
csi_python <<'PY'
import http.server, signal, threading
asked, answer = threading.Event(), threading.Event()
class Store(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked.set()
        answer.wait()
        self.send_error(403)
    do_HEAD = do_GET
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
threading.Thread(target=server.serve_forever, daemon=True).start()

def probes(p):
    return open(p.log.name).read().count("/Probe ")

def late(p, gate):
    "a call that has come, and sends its request when the gate opens"
    def requests():
        gate.wait()
        yield pb.ProbeRequest()
    send = p.channel.stream_unary("/csi.v1.Identity/Probe", pb.ProbeRequest.SerializeToString, pb.ProbeResponse.FromString)
    return send.future(requests())

try:
    p = plugin()
    for i in range(12):  # who is woken first is the library's to choose
        gate = threading.Event()
        asked.clear(); answer.clear()
        begun = p.begin("NodeStageVolume", **p.stage_fields(f"v{i}", uri=f"http://127.0.0.1:{server.server_address[1]}/{i}.tsv"))
        expect("the store was asked", asked.wait(60), True)
        call = late(p, gate)
        p.call("Probe")  # behind it on the same connection
        before = probes(p)
        p.process.send_signal(signal.SIGTERM)
        answer.set()
        begun.exception()
        gate.set()
        p.process.wait()
        # Not what the client saw: it ends its requests after the one, perhaps when nobody is there any more.
        expect(f"answered, {i}", probes(p), before + 1)
        call.exception()
        p.start()
        p.unstage(f"v{i}")
finally:
    answer.set()
    server.shutdown()
PY
nothing_of_csi
