#!/usr/bin/env bash
# A mount is lost with all its holders: a container that follows its volume goes on, one that does not gets an Event that says restart.
. "$SAMPAN_TESTS/lib/common.sh"
need_mount
need_root "it makes namespaces of mounts"
need_command openssl
on_exit 'umount -l "$T"' # after csi.sh has ended what lies upon it
mount --bind "$T" "$T"
mount --make-private "$T"
mount --make-shared "$T" # as kubelet's folder is
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 1 --files 5
mkdir "$T/account"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=api -addext 'subjectAltName=IP:127.0.0.1' \
    -keyout "$T/api.key" -out "$T/account/ca.crt" 2>/dev/null
printf 'token-of-the-plugin\n' >"$T/account/token"
# A container: mounts of its own, among them a file of its pod's folder, and the volume; nothing of the host's is held.
cat >"$T/container.py" <<'PY'
import ctypes, os, sys, time
root, target, hosts, flag = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
BIND, REC, PRIVATE, SLAVE, DETACH = 0x1000, 0x4000, 0x40000, 0x80000, 2
def do(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def mount(what, where, kind, flags):
    do(libc.mount(what and what.encode(), where.encode(), kind and kind.encode(), flags, None))
do(libc.unshare(0x20000))
mount(None, "/", None, SLAVE | REC)
mount("root", root, "tmpfs", 0)
for name in ("old", "data"):
    os.mkdir(f"{root}/{name}")
open(root + "/hosts", "w").close()
mount(hosts, root + "/hosts", None, BIND)
mount(target, root + "/data", None, BIND | REC)
mount(None, root + "/data", None, (SLAVE if flag == "follows" else PRIVATE) | REC)
do(libc.syscall(155, root.encode(), (root + "/old").encode()) if os.uname().machine == "x86_64" else
   libc.syscall(41, root.encode(), (root + "/old").encode()))  # pivot_root
os.chdir("/")
do(libc.umount2(b"/old", DETACH))
print("up", flush=True)
for line in sys.stdin:  # the names of files, or why there are none
    try:
        os.statvfs("/data")
        print(sorted(os.listdir("/data")), flush=True)
    except OSError as e:
        print(e.strerror, flush=True)
PY
csi_python <<'PY'
import http.server, ssl, threading, urllib.request
posts, answers = [], [503, 201]  # the first time it cannot be told
class Api(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        posts.append((self.path, self.headers["Authorization"], body))
        self.send_response(answers.pop(0) if answers else 409)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(T + "/account/ca.crt", T + "/api.key")
server.socket = tls.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"] = "127.0.0.1", str(server.server_address[1])
p = plugin(args=["--service-account", T + "/account", "--metrics", "127.0.0.1:0"])
uri = "file://" + src
def port():
    "the plugin says where its metrics are"
    lines = [line for line in open(T + "/log/csi") if "health on port" in line]
    return len(lines) == starts and lines[-1].split()[-1]
starts = 1
def metric(name):
    until(port)
    text = urllib.request.urlopen(f"http://127.0.0.1:{port()}/metrics", timeout=300).read().decode()
    return [int(line.split()[1]) for line in text.splitlines() if line.split()[0] == name][0]
p.stage("v", uri=uri)
class Container:
    def __init__(self, uid, flag):
        info = {"csi.storage.k8s.io/pod.name": "pod-" + uid, "csi.storage.k8s.io/pod.namespace": "ml", "csi.storage.k8s.io/pod.uid": uid}
        self.target = p.publish("v", uid, **info)
        root, hosts = f"{T}/root-{uid}", f"{p.pods}/pods/{uid}/etc-hosts"
        os.mkdir(root)
        open(hosts, "w").close()
        self.process = subprocess.Popen([sys.executable, T + "/container.py", root, self.target, hosts, flag],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        expect("container", self.process.stdout.readline(), "up\n")
    def sees(self):
        self.process.stdin.write("\n")
        return self.process.stdout.readline().strip()
    def end(self):
        self.process.stdin.close()
        self.process.wait(30)
follows, stays = Container("uid-f", "follows"), Container("uid-s", "stays")
want = str(sorted(os.listdir(src)))
expect("both see it", (follows.sees(), stays.sees()), (want, want))
def abnormal(path):
    return p.call("NodeGetVolumeStats", volume_id="v", volume_path=path).volume_condition.abnormal
def lose_all():
    mnt = [m for m in mounts() if "/state/mnt/" in m][0]
    s = json.loads(subprocess.run([SAMPAN, "status", mnt, "--json"], capture_output=True, text=True, timeout=300).stdout)
    p.kill()
    for how in (signal.SIGSTOP, signal.SIGKILL):
        os.kill(s["keeper_pid"], how); os.kill(s["pid"], how)
    until(lambda: follows.sees() != want and stays.sees() != want)
for round in range(2):
    lose_all()
    p.start()
    starts += 1
    until(lambda: follows.sees() == want)
    expect("the other", stays.sees(), "Transport endpoint is not connected")
    until(lambda: metric("sampan_csi_pods_cut_off") == 1)
    expect("conditions", (abnormal(follows.target), abnormal(stays.target)), (False, True))
    until(lambda: metric("sampan_csi_events_total") == 1)  # of this process: the second one is told that it is there
expect("posts", len(posts), 3)
for path, token, body in posts:
    expect("where", path, "/api/v1/namespaces/ml/events")
    expect("who", token, "Bearer token-of-the-plugin")
    expect("whom", body["involvedObject"], {"apiVersion": "v1", "kind": "Pod", "name": "pod-uid-s", "namespace": "ml", "uid": "uid-s"})
    expect("what", (body["reason"], body["type"], "restart the pod" in body["message"]), ("RestartNeeded", "Warning", True))
expect("one name", len({body["metadata"]["name"] for _, _, body in posts}), 1)
expect("failures", metric("sampan_csi_event_failures_total"), 0)
# Restarted, it sees what is there now.
stays.end()
again = subprocess.Popen([sys.executable, T + "/container.py", T + "/root-uid-s", stays.target, p.pods + "/pods/uid-s/etc-hosts", "stays"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
stays.process = again
expect("container", again.stdout.readline(), "up\n")
expect("restarted", stays.sees(), want)
until(lambda: not abnormal(stays.target))
expect("cut off", metric("sampan_csi_pods_cut_off"), 0)
for c, pod in ((follows, "uid-f"), (stays, "uid-s")):
    c.end()
    p.unpublish("v", pod)
p.unstage("v")
server.shutdown()
PY
grep -rq token-of-the-plugin "$T/log" "$T/csi" && fail "the token is in a log or a record"
nothing_of_csi
