"""A client of the CSI plugin over the gRPC library of others and the messages as they are published, and the
plugin as a process.

    plugin = Plugin()                      # in $T/csi, waits until it answers
    plugin.call("NodeStageVolume", volume_id="v", …)  -> the answer; Refused if it is an error
    plugin.stage("v", uri="file:///…"); plugin.publish("v", "pod-1"); plugin.unpublish(…); plugin.unstage("v")
"""
import linecache, os, signal, subprocess, sys, time

import grpc
from csi_spec import SERVICES, pb  # as published, not from csi.proto

SAMPAN = os.environ["SAMPAN"]


class Refused(Exception):
    def __init__(self, error):
        self.code, self.text = error.code().name, error.details()
        super().__init__(f"{self.code}: {self.text}")


def capability(mode="SINGLE_NODE_WRITER", block=False, fs_type="", flags=(), group=""):
    c = pb.VolumeCapability(access_mode=pb.VolumeCapability.AccessMode(mode=mode))
    if block:
        c.block.SetInParent()
    else:
        c.mount.fs_type = fs_type
        c.mount.volume_mount_group = group
        c.mount.mount_flags.extend(flags)
        c.mount.SetInParent()
    return c


class Plugin:
    def __init__(self, name="csi", start=True, args=(), socket=None, bin=None, around=()):
        self.bin = bin or os.path.dirname(SAMPAN)
        self.around = list(around)  # words before the program's own
        self.root = os.path.join(os.environ["T"], name)
        self.socket = socket or os.path.join(self.root, "csi.sock")
        self.state = os.path.join(self.root, "state")
        self.run = os.path.join(self.root, "run")
        self.pods = os.path.join(self.root, "kubelet")
        self.args = list(args)
        self.process = None
        os.makedirs(self.pods, exist_ok=True)
        self.channel = None
        if start:
            self.start()

    def words(self):
        return [*self.around, os.path.join(self.bin, "sampan-csi"), "--endpoint", f"unix://{self.socket}", "--node-id", "node-a",
                "--state", self.state, "--run-dir", self.run, "--cache-dir", os.path.join(self.root, "cache"),
                "--kubelet-dir", self.pods, *self.args]

    def start(self):
        self.log = open(os.path.join(os.environ["T"], "log", os.path.basename(self.root)), "ab")
        self.process = subprocess.Popen(self.words(), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.connect()
        self.call("Probe", timeout=300, wait=True)

    def connect(self):
        if self.channel:
            self.channel.close()
        self.channel = grpc.insecure_channel(f"unix://{self.socket}", options=[
            ("grpc.use_local_subchannel_pool", 1),  # else a new channel may send over the connection to the plugin before
            ("grpc.initial_reconnect_backoff_ms", 20), ("grpc.min_reconnect_backoff_ms", 20), ("grpc.max_reconnect_backoff_ms", 100)])

    def kill(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait(300)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            if self.process.wait(300):
                raise SystemExit(f"the plugin ended with {self.process.returncode}")

    def method(self, name):
        service = next(s for s, names in SERVICES.items() if name in names)
        return self.channel.unary_unary(f"/csi.v1.{service}/{name}", getattr(pb, name + "Request").SerializeToString,
                                        getattr(pb, name + "Response").FromString)

    def call(self, method, timeout=300, wait=False, **fields):
        request = getattr(pb, method + "Request")(**fields)
        try:
            return self.method(method)(request, timeout=timeout, wait_for_ready=wait)
        except grpc.RpcError as e:
            raise Refused(e) from None

    def begin(self, method, **fields):
        return self.method(method).future(getattr(pb, method + "Request")(**fields), timeout=300)

    # --- a volume's usual way, with paths as kubelet makes them ---------------------------------------

    def staging(self, volume):
        path = os.path.join(self.pods, "plugins", volume, "globalmount")
        os.makedirs(path, exist_ok=True)
        return path

    def target(self, volume, pod):
        path = os.path.join(self.pods, "pods", pod, volume)
        os.makedirs(path, exist_ok=True)
        return os.path.join(path, "mount")

    def stage_fields(self, volume, secrets=None, cap=None, **attributes):
        return dict(volume_id=volume, staging_target_path=self.staging(volume), volume_capability=cap or capability(),
                    volume_context=attributes, secrets=secrets or {})

    def stage(self, volume, **kw):
        return self.call("NodeStageVolume", **self.stage_fields(volume, **kw))

    def publish_fields(self, volume, pod, readonly=False, secrets=None, cap=None, **attributes):
        return dict(volume_id=volume, staging_target_path=self.staging(volume), target_path=self.target(volume, pod),
                    volume_capability=cap or capability(), readonly=readonly, volume_context=attributes, secrets=secrets or {})

    def publish(self, volume, pod, **kw):
        self.call("NodePublishVolume", **self.publish_fields(volume, pod, **kw))
        return self.target(volume, pod)

    def unpublish(self, volume, pod):
        self.call("NodeUnpublishVolume", volume_id=volume, target_path=self.target(volume, pod))

    def unstage(self, volume):
        self.call("NodeUnstageVolume", volume_id=volume, staging_target_path=self.staging(volume))


def refused(code, text, call, *args, **fields):
    try:
        call(*args, **fields)
    except Refused as e:
        if e.code != code or text.lower() not in e.text.lower():
            raise SystemExit(f"{args} {fields}: got {e}, want {code} with '{text}'")
        return e.text
    raise SystemExit(f"{args} {fields}: it was taken, want {code} with '{text}'")


def until(check, seconds=30):
    give_up = time.monotonic() + 10 * seconds
    while not check():
        if time.monotonic() > give_up:
            caller = sys._getframe(1)
            line = linecache.getline(caller.f_code.co_filename, caller.f_lineno).strip()
            raise SystemExit(f"it never came: {check.__doc__ or line}")
        time.sleep(0.05)


def mounts():
    """Mount points of Sampan's mounts below $T."""
    top = os.environ["T"] + "/"
    with open("/proc/self/mountinfo", errors="surrogateescape") as f:
        rows = [line.split() for line in f]
    return [row[4] for row in rows if row[4].startswith(top) and row[row.index("-") + 1] == "fuse.sampan"]
