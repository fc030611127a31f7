#!/usr/bin/env bash
# A volume whose store does not answer holds up no other; it is one call at a time for itself, and goes on when its client went.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 1 --files 5
csi_python <<'PY'
import http.server, threading
asked, answer = threading.Event(), threading.Event()
class Store(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        asked.set()
        answer.wait()
        body = b"a.bin\t4\t1700000000\n" if self.path.endswith(".tsv") else b"abcd"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)
    do_HEAD = do_GET
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
threading.Thread(target=server.serve_forever, daemon=True).start()
try:
    p = plugin()
    slow = dict(uri=f"http://127.0.0.1:{server.server_address[1]}/manifest.tsv")
    fields = p.stage_fields("slow", **slow)
    begun = p.begin("NodeStageVolume", **fields)
    expect("the store was asked", asked.wait(60), True)
    p.stage("quick", uri="file://" + src)
    expect("another volume is there meanwhile", sorted(os.listdir(p.publish("quick", "pod"))), sorted(os.listdir(src)))
    p.unpublish("quick", "pod"); p.unstage("quick")
    refused("ABORTED", "slow", p.call, "NodeStageVolume", **fields)
    refused("ABORTED", "slow", p.unstage, "slow")
    expect("it is still under way", begun.done(), False)
    begun.cancel()
    refused("ABORTED", "slow", p.call, "NodeStageVolume", **fields)
    answer.set()
    def staged():
        "the call ends although nobody waits for it"
        try:
            p.call("NodeStageVolume", **fields)
            return True
        except Refused as e:
            expect("code", e.code, "ABORTED")
    until(staged)
    expect("content", open(p.publish("slow", "pod") + "/a.bin").read(), "abcd")
    p.unpublish("slow", "pod"); p.unstage("slow")
finally:
    answer.set()
    server.shutdown()
PY
nothing_of_csi
