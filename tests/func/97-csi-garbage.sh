#!/usr/bin/env bash
# Frames that are cut off, giant, out of order or of another protocol, and clients that hang, are answered or dropped; the plugin goes on.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
export SRC=$T
csi_python <<'PY'
import random, socket, struct
p = plugin()
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
def frame(kind, flags, stream, payload, length=None):
    return struct.pack(">I", len(payload) if length is None else length)[1:] + struct.pack(">BBI", kind, flags, stream) + payload
DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
def literal(name, value): # never indexed, plain
    return b"\x10" + bytes([len(name)]) + name + bytes([len(value)]) + value
def headers(path=b"/csi.v1.Identity/Probe", kind=b"application/grpc", method=b"POST", more=b""):
    return (literal(b":method", method) + literal(b":scheme", b"http") + literal(b":path", path) + literal(b":authority", b"localhost") +
            literal(b"content-type", kind) + literal(b"te", b"trailers") + more)
def message(body=b"", length=None, packed=0):
    return struct.pack(">BI", packed, len(body) if length is None else length) + body
def call(head=None, body=message(), end=1):
    return frame(HEADERS, 4, 1, headers() if head is None else head) + frame(DATA, end, 1, body)
hello = PREFACE + frame(SETTINGS, 0, 0, b"")
random.seed(11)
cases = {
    "nothing": b"", "noise": random.randbytes(4096), "HTTP/1": b"GET /csi.v1.Identity/Probe HTTP/1.1\r\nHost: x\r\n\r\n", "half a preface": PREFACE[:11],
    "no settings": PREFACE + frame(PING, 0, 0, b"12345678"), "half a frame": hello + frame(HEADERS, 4, 1, headers())[:20],
    "a giant frame": hello + frame(DATA, 0, 1, b"", 0xffffff), "frames of no kind": hello + b"".join(frame(k, 255, 1, b"x" * 9) for k in range(10, 250)),
    "data without headers": hello + frame(DATA, 1, 1, message()), "an even stream": hello + frame(HEADERS, 5, 2, headers()),
    "settings of a wrong length": PREFACE + frame(SETTINGS, 0, 0, b"12345"), "a window of 0": hello + frame(WINDOW, 0, 0, b"\0\0\0\0"),
    "headers that are none": hello + frame(HEADERS, 4, 1, b"\xff" * 200), "headers without an end": hello + frame(HEADERS, 0, 1, headers()) + frame(DATA, 1, 1, b""),
    "a path of no method": hello + call(headers(path=b"/csi.v1.Node/Fly")), "no path": hello + call(headers(path=b"")), "a path of noise": hello + call(headers(path=bytes(range(128, 228)))),
    "another content": hello + call(headers(kind=b"text/html")), "GET": hello + call(headers(method=b"GET")),
    "a message said to be 4 GiB": hello + call(body=message(b"x", 0xffffffff)), "a message cut off": hello + call(body=message(b"x", 900)),
    "a packed message": hello + call(body=message(b"xyz", packed=1)), "two messages": hello + call(body=message() * 2), "no message": hello + call(body=b""),
    "an odd timeout": hello + call(headers(more=literal(b"grpc-timeout", b"99999999999999H"))), "stage of noise": hello + call(headers(path=b"/csi.v1.Node/NodeStageVolume"), message(random.randbytes(900))),
    "2 MiB": hello + frame(HEADERS, 4, 1, headers()) + b"".join(frame(DATA, 0, 1, message(b"", 2 << 20) + b"x" * 16000) for _ in range(130)),
    "reset at once": hello + b"".join(frame(HEADERS, 5, s, headers()) + frame(RST, 0, s, b"\0\0\0\x08") for s in range(1, 401, 2)),
    "pings": hello + frame(PING, 0, 0, b"12345678") * 500, "goaway first": hello + frame(GOAWAY, 0, 0, b"\0" * 8) + call(),
}
proto = [random.randbytes(random.randrange(1, 200)) for _ in range(60)]
proto += [b"\x0a\xff\xff\xff\xff\x0f" + b"x" * 9, b"\x0a" * 5000, b"\x80" * 30, b"\x0b" * 50, b"\x32\x05\x0a\x03\xff\xfe\xfd", b"\x22" + b"\x0a" * 1000]
hanging = []
def send(data, end=True):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(p.socket)
    try:
        s.sendall(data)
        if end:
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
    except (BrokenPipeError, ConnectionResetError):
        pass
    return s
def alive(after):
    expect(f"ready after {after}", p.call("Probe", timeout=300).ready.value, True)
for name, data in cases.items():
    send(data).close()
    hanging.append(send(data, end=False)) # and one that neither goes on nor goes
    alive(name)
# Every prefix of a good call, cut off.
good = hello + call()
for n in range(0, len(good), 7):
    send(good[:n]).close()
alive("calls cut off")
codes = set()
for name in ("NodeStageVolume", "NodePublishVolume", "NodeUnstageVolume", "CreateVolume", "CreateSnapshot", "ListVolumes"):
    service = "Node" if name.startswith("Node") else "Controller"
    for body in proto:
        try:
            p.channel.unary_unary(f"/csi.v1.{service}/{name}")(body, timeout=300)
        except grpc.RpcError as e:
            codes.add(e.code().name)
alive("protobuf garbage")
expect("codes", codes <= {"INVALID_ARGUMENT", "ABORTED"}, True)
for s in hanging:
    s.close()
expect("it is the same process", p.process.poll(), None)
def descriptors():
    return len(os.listdir(f"/proc/{p.process.pid}/fd"))
until(lambda: descriptors() < 60)
PY
nothing_of_csi
