#!/usr/bin/env python3
"""faultsrv: an object server for tests of the transfer engine, whose faults are written in the keys.

  faultsrv.py [--port N]        prints "listening on PORT"; ends when its standard input ends

GET and HEAD of /BUCKET/SPEC/NAME answer an object made up from its key, byte for byte repeatable:
byte i = f((seed + i) % 65521), f(j) = (7 j + 13 (j >> 8)) & 255, seed = the key's FNV-1a sum (32 bits).
SPEC = settings joined by ',':  size=N (1000)  and faults FAULT=K, each for the first K requests of the key:
  s503 s404 s403 s400   answer that status      retry-after=S       with that header
  reset                 RST in mid-body         drop                close without an answer
  truncate              half the body, then close      shorten      half the body, and Content-Length says so
  stall stall-head      no byte any more in mid-body, or before the head
  etag total range      lie about ETag, total size, start of the range
  longer                behind the body, another answer
  norange               answer 200 with the whole object         chunked   without Content-Length
  flip                  one wrong byte          garbage             no HTTP         close   close unannounced after the answer
  sum=KIND              a whole object's sum (crc32, crc32c, crc64nvme) for those who ask; with another-sum, a wrong one,
                        with sum-of-parts, one that is said to be of its parts
  no-sums=400|501       refuses the header that asks for it
  late=K:MS             the first K answers begin MS milliseconds late
  slow=BYTES            so many bytes a second, until somebody asks for /_fast; again from /_slow on
  late-error            a copy, or the end of an upload, fails after "200" was sent
PUT stores an object under any key; early=STATUS answers it before the body is read (0: never, nor is it read), sip=BYTES reads so many a second; chunked and close as above. POST ?uploads, PUT ?partNumber&uploadId, POST ?uploadId, DELETE as S3 does.
GET /BUCKET?list-type=2 lists made-up buckets: flat-N (img_000000…), tree-DxF (class_DDDD/file_FFFF.jpg), deep-N, between-N (folders with objects between them), else what was PUT; minio-KIND-… the same, by a server of that name.
Bucket circles: whatever is listed there in pages (objects, uploads, parts of one) has the same page after each.
GET /bottomless/…/ is an index page of a folder x that is such a folder again.
GET /_count/PATH answers how many requests /PATH had; /_peak the most requests at once, /_now how many there are, this one too;
/_cuts how many listings began in mid-folder;
/_open how many connections clients hold open, without the one that asks.
"""
import argparse
import asyncio
import base64
import bisect
import os
import socket
import struct
import sys
import urllib.parse

J = bytes((7 * j + 13 * (j >> 8)) & 255 for j in range(65521))
COUNTS, STORED, UPLOADS = {}, {}, {}
READERS = set()  # one a connection
NOW = PEAK = CUTS = 0
FAST = asyncio.Event()


def fnv(key):
    h = 2166136261
    for c in key.encode():
        h = (h ^ c) * 16777619 & 0xFFFFFFFF
    return h


def body_of(key, size):
    start = fnv(key) % 65521
    return (J[start:] + J * (size // 65521 + 1))[:size]


def crc(kind, data):
    """bit by bit, as the definition has it"""
    poly, bits = {"crc32": (0xEDB88320, 32), "crc32c": (0x82F63B78, 32), "crc64nvme": (0x9A6C9329AC4BC9B5, 64)}[kind]
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (poly if value & 1 else 0)
        table.append(value)
    out = ones = (1 << bits) - 1
    for byte in data:
        out = out >> 8 ^ table[(out ^ byte) & 255]
    return base64.b64encode((out ^ ones).to_bytes(bits // 8, "big")).decode()


def settings(spec):
    out = {}
    for part in spec.split(","):
        name, _, value = part.partition("=")
        out[name] = value or "999999"
    return out


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.headers, self.body = method, headers, body
        path, _, query = target.partition("?")
        self.path = urllib.parse.unquote(path)
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self.unread = 0


async def read_request(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        if name:
            headers[name.lower()] = value.strip()
    length = int(headers.get("content-length", 0))
    r = Request(method, target, headers, b"")
    if method == "PUT" and ("/early=" in r.path or "/sip=" in r.path):
        r.unread = length
    elif length:
        r.body = await reader.readexactly(length)
    return r


def send(writer, status, headers, body=b"", length=None):
    head = "HTTP/1.1 %d X\r\n" % status
    if length is not False:
        headers = {"Content-Length": len(body) if length is None else length, **headers}
    writer.write((head + "".join("%s: %s\r\n" % h for h in headers.items()) + "\r\n").encode() + body)


def reset(writer):
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


# --- listings ---------------------------------------------------------------------------------------


def keys_of(bucket):
    kind, _, rest = bucket.removeprefix("minio-").partition("-")
    if kind == "flat":
        return ["img_%06d" % i for i in range(int(rest))]
    if kind == "tree":
        d, f = map(int, rest.split("x"))
        return ["class_%04d/file_%04d.jpg" % (i, j) for i in range(d) for j in range(f)]
    if kind == "deep":
        return sorted({"a/" * (i % 7) + "b%d/c%d" % (i % 11, i) for i in range(int(rest))} | {"a/b/", "z", "a.b", "a0"})
    if kind == "between":
        inner = ("/f", "/", "/x/y/z")
        return sorted("d%05d%s" % (i, end) for i in range(int(rest)) for end in (".txt", inner[i % 3], "0"))
    return sorted(k.partition("/")[2] for k in STORED if k.startswith(bucket + "/"))


def list_page(bucket, q, made={}):
    if bucket not in made:
        made[bucket] = keys_of(bucket)
    prefix, delim = q.get("prefix", ""), q.get("delimiter", "")
    after = q.get("continuation-token") or q.get("start-after", "")
    most = int(q.get("max-keys", 1000))
    out, folders, last, more = [], [], "", False

    keys = made[bucket]
    at = max(bisect.bisect_right(keys, after), bisect.bisect_left(keys, prefix))
    while at < len(keys) and keys[at].startswith(prefix):
        key = keys[at]
        cut = key.find(delim, len(prefix)) if delim else -1
        if len(out) + len(folders) >= most:
            more = True
            break
        if cut >= 0:
            folder = key[: cut + 1]
            folders.append(folder)
            at = bisect.bisect_left(keys, folder + "\U0010ffff")
            last = keys[at - 1]
        else:
            out.append(key)
            last = key
            at += 1
    item = "<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;%08x&quot;</ETag><Size>%d</Size></Contents>"
    enc = urllib.parse.quote if q.get("encoding-type") == "url" else (lambda s: s)
    text = "".join(item % (enc(k), fnv(bucket + "/" + k), len(STORED.get(bucket + "/" + k, k))) for k in out)
    text += "".join("<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>" % enc(p) for p in folders)
    if more:
        text += "<NextContinuationToken>%s</NextContinuationToken>" % last
    encoding = "<EncodingType>url</EncodingType>" if "encoding-type" in q else ""
    return ("<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>%s</IsTruncated>%s%s</ListBucketResult>"
            % ("true" if more else "false", encoding, text)).encode()


# --- writes -----------------------------------------------------------------------------------------


def write(r, writer, key):
    tag = {"ETag": '"%08x"' % fnv(key)}
    told = int(settings(key.split("/")[1]).get("late-error", "0")) if "/" in key else 0
    ends = "x-amz-copy-source" in r.headers or (r.method == "POST" and "uploadId" in r.query)
    if ends and COUNTS[r.path] <= told:
        return error(writer, 200, {})
    if r.method == "DELETE":
        if "uploadId" in r.query:
            UPLOADS.pop(r.query["uploadId"], None)
        STORED.pop(key, None)
        return send(writer, 204, {})
    if "uploads" in r.query:
        name = "u%d" % (len(UPLOADS) + 1)
        UPLOADS[name] = {}
        return send(writer, 200, {}, b"<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>" % name.encode())
    if "uploadId" in r.query and r.method == "PUT":
        part = int(r.query["partNumber"])
        UPLOADS[r.query["uploadId"]][part] = r.body
        return send(writer, 200, {"ETag": '"p%d"' % part})
    if "uploadId" in r.query:
        parts = UPLOADS.pop(r.query["uploadId"])
        STORED[key] = b"".join(parts[i] for i in sorted(parts))
        return send(writer, 200, {}, b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>")
    STORED[key] = r.body
    s = settings(key.split("/")[1]) if "/" in key else {}
    send(writer, 200, tag, length=False if "chunked" in s else None)
    if "chunked" in s or "close" in s:
        writer.close()


async def sip(r, reader, writer):
    key = r.path.lstrip("/")
    step = int(settings(key.split("/")[1])["sip"]) // 20
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)  # the system does not take it for us
    body = b""
    while len(body) < r.unread:
        body += await reader.readexactly(min(step, r.unread - len(body)))
        await asyncio.sleep(0.05)
    STORED[key] = body
    send(writer, 200, {"ETag": '"%08x"' % fnv(key)})


async def answer_early(r, reader, writer):
    key = r.path.lstrip("/")
    s = settings(key.split("/")[1])
    COUNTS[r.path] = COUNTS.get(r.path, 0) + 1
    if "sip" in s:
        return await sip(r, reader, writer)
    if s["early"] == "0":
        await asyncio.sleep(3600)
    if s["early"] != "200":
        error(writer, int(s["early"]), s)
    else:
        send(writer, 200, {"ETag": '"%08x"' % fnv(key)})
    await writer.drain()
    STORED[key] = await reader.readexactly(r.unread)


# --- objects ----------------------------------------------------------------------------------------


def error(writer, status, s):
    code = {200: "InternalError", 503: "SlowDown", 404: "NoSuchKey", 403: "AccessDenied"}.get(status, "InvalidRequest")
    headers = {"Content-Type": "application/xml"}
    if "retry-after" in s:
        headers["Retry-After"] = s["retry-after"]
    send(writer, status, headers, ("<Error><Code>%s</Code><Message>as told</Message></Error>" % code).encode())


def refuse_sums(writer, status):
    code, why = {"400": ("InvalidArgument", "Unsupported header 'x-amz-checksum-mode' received for this API call."),
                 "501": ("NotImplemented", "A header implies more than this server does.")}[status]
    text = "<Error><Code>%s</Code><Message>%s</Message></Error>" % (code, why)
    send(writer, int(status), {"Content-Type": "application/xml"}, text.encode())


def add_sum(headers, data, s):
    value = crc(s["sum"], data + b"!" * ("another-sum" in s))
    headers["x-amz-checksum-" + s["sum"]] = value + "-2" * ("sum-of-parts" in s)
    headers["x-amz-checksum-type"] = "COMPOSITE" if "sum-of-parts" in s else "FULL_OBJECT"


def ranged(r, data, s, has):
    """status, headers, body and the length to announce"""
    total, start, end = len(data), 0, len(data) - 1
    headers = {}
    span = r.headers.get("range", "")
    status = 200
    if span.startswith("bytes=") and not has("norange"):
        first, _, last = span[6:].partition("-")
        start, end = int(first), min(int(last or total), total - 1)
        status = 206
        told = total + 1 if has("total") else total
        moved = 1 if has("range") else 0
        headers["Content-Range"] = "bytes %d-%d/%d" % (start + moved, end + moved, told)
    return status, headers, data[start : end + 1]


async def answer_object(r, writer, key):
    global NOW, PEAK
    s = settings(key.split("/")[1]) if "/" in key else {}
    n = COUNTS[r.path]
    has = lambda f: n <= int(s.get(f, "0").split(":")[0])
    for status in (503, 404, 403, 400):
        if has("s%d" % status):
            return error(writer, status, s)
    if has("drop"):
        return writer.close()
    if has("garbage"):
        writer.write(b"\x00\x01 this is not HTTP at all\n\n")
        return writer.close()
    if has("stall-head"):
        await asyncio.sleep(3600)
    if has("late"):
        await asyncio.sleep(int(s["late"].split(":")[1]) / 1000)
    asks = r.headers.get("x-amz-checksum-mode") == "ENABLED"
    if "no-sums" in s and "x-amz-checksum-mode" in r.headers:
        return refuse_sums(writer, s["no-sums"])
    data = STORED.get(key)
    if data is None:
        data = body_of(key, int(s.get("size", 1000)))
    status, headers, body = ranged(r, data, s, has)
    if asks and "sum" in s and status == 200:
        add_sum(headers, data, s)
    headers["ETag"] = '"other"' if has("etag") else '"%08x"' % fnv(key)
    length = len(body)
    if has("flip"):
        body = body[:-1] + bytes([body[-1] ^ 1])
    half = body[: len(body) // 2]
    if r.method == "HEAD":
        return send(writer, status, headers, b"", length)
    if has("chunked"):
        headers["Connection"] = "close"
        send(writer, status, headers, body, False)
        return writer.close()
    for fault in ("reset", "truncate", "stall"):
        if has(fault):
            send(writer, status, headers, half, length)
            await writer.drain()
            if fault == "stall":
                await asyncio.sleep(3600)
            await asyncio.sleep(0.02)
            return reset(writer) if fault == "reset" else writer.close()
    if has("shorten"):
        return send(writer, status, headers, half)
    if "slow" in s:
        send(writer, status, headers, b"", length)
        step = max(1, int(s["slow"]) // 20)
        for i in range(0, length, step):
            if writer.is_closing():
                return
            writer.write(body[i : i + step])
            try:
                await asyncio.wait_for(FAST.wait(), 0.05)
            except asyncio.TimeoutError:
                pass
        return
    send(writer, status, headers, body + b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + body if has("longer") else body, length)
    if has("close"):
        writer.close()


def circle(r, writer):
    what = "Uploads" if "uploads" in r.query else "Parts" if "uploadId" in r.query else "Bucket"
    marker = {"Uploads": "NextKeyMarker", "Parts": "NextPartNumberMarker", "Bucket": "NextContinuationToken"}[what]
    text = "<List%sResult><IsTruncated>true</IsTruncated><%s>7</%s></List%sResult>" % (what, marker, marker, what)
    send(writer, 200, {"Content-Type": "application/xml"}, text.encode())


async def answer(r, writer):
    global CUTS
    if r.path.startswith("/_count/"):
        return send(writer, 200, {}, str(COUNTS.get(r.path[7:], 0)).encode())
    if r.path == "/_peak":
        return send(writer, 200, {}, str(PEAK).encode())
    if r.path == "/_now":
        return send(writer, 200, {}, str(NOW).encode())
    if r.path == "/_cuts":
        return send(writer, 200, {}, str(CUTS).encode())
    if r.path == "/_open":
        return send(writer, 200, {}, str(sum(not reader.at_eof() for reader in READERS) - 1).encode())
    if r.path in ("/_fast", "/_slow"):
        FAST.set() if r.path == "/_fast" else FAST.clear()
        return send(writer, 200, {})
    if r.path == "/_uploads":
        return send(writer, 200, {}, str(len(UPLOADS)).encode())
    COUNTS[r.path] = COUNTS.get(r.path, 0) + 1
    key = r.path.lstrip("/")
    bucket = key.rstrip("/")
    if r.path.startswith("/bottomless/"):
        return send(writer, 200, {"Content-Type": "text/html"}, b"<html><a href=x/>x/</a></html>")
    if r.method == "GET" and bucket.startswith("circles") and r.query:
        return circle(r, writer)
    if r.method == "GET" and "list-type" in r.query:
        CUTS += "start-after" in r.query
        headers = {"Content-Type": "application/xml", **({"Server": "MinIO"} if bucket.startswith("minio-") else {})}
        return send(writer, 200, headers, list_page(bucket, r.query))
    if r.method in ("PUT", "POST", "DELETE"):
        spec = key.split("/")[1] if "/" in key else ""
        spared = r.method == "DELETE" or "uploads" in r.query
        if COUNTS[r.path] <= int(settings(spec).get("s503", "0")) and not spared:
            return error(writer, 503, settings(spec))
        return write(r, writer, key)
    await answer_object(r, writer, key)


async def serve(reader, writer):
    global NOW, PEAK
    READERS.add(reader)
    try:
        while not writer.is_closing():
            r = await read_request(reader)
            NOW += 1
            PEAK = max(PEAK, NOW)
            try:
                await (answer_early(r, reader, writer) if r.unread else answer(r, writer))
                if not writer.is_closing():
                    await writer.drain()
            finally:
                NOW -= 1
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        pass
    finally:
        READERS.discard(reader)
        writer.close()


async def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--port", type=int, default=0)
    args = p.parse_args()
    server = await asyncio.start_server(serve, "127.0.0.1", args.port, limit=1 << 20)
    print("listening on %d" % server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
    sys.stdout.flush()

    os._exit(0)
