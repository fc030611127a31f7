#!/usr/bin/env python3
"""A small BOS over a local folder, which checks every request's bce-auth-v1 signature by itself.

    bos.py --root DIR --bucket NAME --key AK --secret SK [--token TOKEN] --ready FILE --log FILE [--page N] [--writable]

Written from Baidu's description of the signature and of the operations, and from nothing of Sampan:
    prefix    = bce-auth-v1/AK/TIMESTAMP/SECONDS
    key       = hex(hmac-sha256(SK, prefix))
    signature = hex(hmac-sha256(key, METHOD \n URI \n QUERY \n HEADERS))
with every part encoded per RFC 3986, query and headers sorted, the host among the signed headers, and every
x-bce- header that is sent too. GET lists (prefix, delimiter, marker, maxKeys) and reads (with ranges); HEAD
tells. Without a delimiter a page names no nextMarker. Each request is a line of --log: METHOD TARGET RANGE STATUS.

With --writable the bucket is what is in memory (at first the files of DIR), and there are PUT, DELETE, copies (also of
ranges), deletes of many, and uploads in parts with their listings. As Baidu describes them: metadata of an upload comes
with the request that completes it, and not with the one that begins it; parts but the last have 5 MiB or whole MiB;
metadata is 2 KiB at most; what was deleted of many is not told, only what was not.
"""
import argparse
import base64
import datetime
import hashlib
import hmac
import http.server
import json
import os
import re
import threading
import time
import urllib.parse
import uuid

SAFE = "-_.~"


class Refusal(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code = status, code


def encode(text, safe=SAFE):
    return urllib.parse.quote(text if isinstance(text, bytes) else text.encode("latin-1"), safe=safe)


def hex_hmac(key, text):
    return hmac.new(key.encode(), text.encode("latin-1"), hashlib.sha256).hexdigest()


def iso(seconds):
    return datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)


class Bos(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def log_message(self, *_):
        pass

    def answer(self, status, body, headers=()):
        with self.server.lock:
            self.server.log.write(f"{self.command} {self.path} {self.headers.get('Range', '-')} {status}\n")
            self.server.log.flush()
        self.send_response(status)
        headers = dict(headers)
        headers.setdefault("Content-Length", str(len(body)))
        for header in headers.items():
            self.send_header(*header)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def check_signature(self, path, query):
        options = self.server.options
        given = self.headers.get("Authorization")
        if not given:
            raise Refusal(403, "AccessDenied", "Access Denied.")
        parts = given.split("/")
        if len(parts) != 6 or parts[0] != "bce-auth-v1":
            raise Refusal(400, "InvalidHTTPAuthHeader", "The HTTP authorization header is invalid.")
        _, access, stamp, seconds, names, signature = parts
        if access != options.key:
            raise Refusal(403, "InvalidAccessKeyId", "The Access Key ID you provided does not exist in our records.")
        age = (datetime.datetime.now(datetime.timezone.utc) - utc(stamp)).total_seconds()
        if age > int(seconds) or age < -900:
            raise Refusal(400, "RequestExpired", "Request has expired.")
        if self.headers.get("x-bce-security-token", "") != options.token:
            raise Refusal(400, "InvalidSessionToken", "The session token is invalid.")
        # None is named: then it is these.
        usual = [n.lower() for n in self.headers if n.lower().startswith("x-bce-")] + ["host", "content-length", "content-type", "content-md5"]
        names = names.split(";") if names else usual
        unsigned = [n.lower() for n in self.headers if n.lower().startswith("x-bce-") and n.lower() not in names]
        if "host" not in names or unsigned:
            raise Refusal(400, "SignatureDoesNotMatch", f"headers that must be signed: host {' '.join(unsigned)}")
        uri = encode(urllib.parse.unquote_to_bytes(path), SAFE + "/")
        pairs = []
        for part in filter(None, query.split("&")):
            name, _, value = part.partition("=")
            pairs.append(f"{encode(urllib.parse.unquote_to_bytes(name))}={encode(urllib.parse.unquote_to_bytes(value))}")
        lines = [f"{encode(n)}:{encode(self.headers[n].strip())}" for n in names if self.headers.get(n, "").strip()]
        request = "\n".join((self.command, uri, "&".join(sorted(pairs)), "\n".join(sorted(lines))))
        key = hex_hmac(options.secret, "/".join(parts[:4]))
        if not hmac.compare_digest(hex_hmac(key, request), signature):
            raise Refusal(400, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")

    def handle_one(self):
        path, _, query = self.path.partition("?")
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self.check_signature(path, query)
            md5 = self.headers.get("Content-MD5")
            if md5 and base64.b64decode(md5) != hashlib.md5(self.body).digest():
                raise Refusal(400, "BadDigest", "The Content-MD5 you specified did not match what we received.")
            bucket, _, key = os.fsdecode(urllib.parse.unquote_to_bytes(path)).lstrip("/").partition("/")
            if bucket != self.server.options.bucket:
                raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
            self.do(key, dict(urllib.parse.parse_qsl(query, keep_blank_values=True)))
        except Refusal as why:
            text = {"code": why.code, "message": str(why), "requestId": "00000000-0000-0000-0000-000000000000"}
            self.answer(why.status, json.dumps(text).encode(), {"Content-Type": "application/json; charset=utf-8"})

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one

    def do(self, key, query):
        bucket, kind = self.server.bucket, self.command
        if kind in ("GET", "HEAD") and "uploads" not in query and "uploadId" not in query:
            return self.read_object(key) if key else self.list_objects(query)
        if not isinstance(bucket, Memory):
            raise Refusal(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
        with bucket.lock:
            if not key:
                return self.list_uploads(bucket, query) if kind == "GET" else self.delete_many(bucket)
            if "uploads" in query:
                return self.tell({"bucket": self.server.options.bucket, "key": key, "uploadId": bucket.begin(key)})
            if "uploadId" in query:
                return self.do_upload(bucket, key, query)
            if kind == "DELETE":
                bucket.find(key)
                del bucket.objects[key]
                return self.answer(204, b"")
            if "x-bce-copy-source" in self.headers:
                source = self.copied(bucket)
                replaced = self.headers.get("x-bce-metadata-directive", "copy") == "replace"
                made = bucket.put(key, source.body, self.meta() if replaced else source.meta, source.etag)
                return self.tell({"eTag": made.etag, "lastModified": iso(made.mtime)})
            return self.answer(200, b"", {"ETag": f'"{bucket.put(key, self.body, self.meta()).etag}"'})

    def tell(self, what):
        self.answer(200, json.dumps(what).encode(), {"Content-Type": "application/json; charset=utf-8"})

    def meta(self):
        found = {n.lower(): v for n, v in self.headers.items() if n.lower().startswith("x-bce-meta-")}
        if sum(len(n) + len(v) for n, v in found.items()) > 2048:
            raise Refusal(400, "MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size.")
        return found

    def copied(self, bucket):
        name = os.fsdecode(urllib.parse.unquote_to_bytes(self.headers["x-bce-copy-source"]))
        source, _, key = name.lstrip("/").partition("/")
        if source != self.server.options.bucket:
            raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
        found, want = bucket.find(key), self.headers.get("x-bce-copy-source-if-match")
        if want and want != found.etag:
            raise Refusal(412, "PreconditionFailed", "The specified If-Match header does not match the ETag.")
        return found

    def do_upload(self, bucket, key, query):
        upload = bucket.upload(key, query["uploadId"])
        if self.command == "PUT":
            body = self.body
            copies = "x-bce-copy-source" in self.headers
            if copies:
                body = self.copied(bucket).body
                span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("x-bce-copy-source-range", ""))
                body = body[int(span[1]):int(span[2]) + 1] if span else body
            etag = hashlib.md5(body).hexdigest()
            upload["parts"][int(query["partNumber"])] = (body, etag)
            return self.tell({"eTag": etag, "lastModified": iso(time.time())}) if copies else self.answer(200, b"", {"ETag": f'"{etag}"'})
        if self.command == "GET":
            return self.list_parts(upload, query)
        if self.command == "POST":
            made = bucket.end(key, query["uploadId"], json.loads(self.body)["parts"], self.meta())
            return self.tell({"bucket": self.server.options.bucket, "key": key, "eTag": made.etag, "location": f"/{key}"})
        del bucket.uploads[query["uploadId"]]
        return self.answer(204, b"")

    def list_parts(self, upload, query):
        after, most = int(query.get("partNumberMarker", 0)), min(int(query.get("maxParts", 1000)), self.server.options.page)
        found = [n for n in sorted(upload["parts"]) if n > after]
        parts = [{"partNumber": n, "eTag": upload["parts"][n][1], "size": len(upload["parts"][n][0]), "lastModified": iso(time.time())}
                 for n in found[:most]]
        self.tell({"bucket": self.server.options.bucket, "key": upload["key"], "uploadId": query["uploadId"], "partNumberMarker": after,
                   "nextPartNumberMarker": parts[-1]["partNumber"] if parts else 0, "maxParts": most, "isTruncated": len(found) > most,
                   "parts": parts})

    def list_uploads(self, bucket, query):
        most, after = min(int(query.get("maxUploads", 1000)), self.server.options.page), query.get("keyMarker", "")
        found = sorted((u["key"], i) for i, u in bucket.uploads.items() if u["key"].startswith(query.get("prefix", "")) and u["key"] > after)
        self.tell({"bucket": self.server.options.bucket, "prefix": query.get("prefix", ""), "keyMarker": after, "maxUploads": most,
                   "isTruncated": len(found) > most, "nextKeyMarker": found[most - 1][0] if len(found) > most else "",
                   "uploads": [{"key": k, "uploadId": i, "initiated": iso(time.time())} for k, i in found[:most]]})

    def delete_many(self, bucket):
        objects = json.loads(self.body)["objects"]
        if len(objects) > 1000:
            raise Refusal(400, "MalformedJSON", "The JSON you provided was not well-formed: more than 1000 objects.")
        errors = [{"key": o["key"], "code": "NoSuchKey", "message": "The specified key does not exist."}
                  for o in objects if bucket.objects.pop(o["key"], None) is None]
        self.answer(200, json.dumps({"errors": errors}).encode() if errors else b"", {"Content-Type": "application/json; charset=utf-8"})

    def read_object(self, key):
        found = self.server.bucket.find(key)
        data = found.body
        headers = {"ETag": f'"{found.etag}"', "Content-Type": "application/octet-stream",
                   "Last-Modified": self.date_time_string(found.mtime), **found.meta}
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not span:
            return self.answer(200, data, {**headers, "Content-Length": str(len(data))})
        first, last = int(span[1]), min(int(span[2] or len(data)), len(data) - 1)
        if first > last:
            raise Refusal(416, "InvalidRange", "The requested range cannot be satisfied.")
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        return self.answer(206, data[first:last + 1], headers)

    def list_objects(self, query):
        bucket, prefix, delimiter = self.server.bucket, query.get("prefix", ""), query.get("delimiter", "")
        marker, most = query.get("marker", ""), min(int(query.get("maxKeys", 1000)), self.server.options.page)
        contents, folders, last, cut = [], [], "", False
        for key in bucket.keys():
            at = key.find(delimiter, len(prefix)) if delimiter else -1
            name = key[:at + 1] if at >= 0 else key
            if not key.startswith(prefix) or name <= marker or name in folders:
                continue
            if len(contents) + len(folders) >= most:
                cut = True
                break
            last = name
            if at >= 0:
                folders.append(name)
                continue
            found = bucket.find(key)
            contents.append({"key": key, "lastModified": iso(found.mtime), "eTag": found.etag, "size": len(found.body),
                             "storageClass": "STANDARD", "owner": {"id": "o", "displayName": "o"}})
        told = {"name": self.server.options.bucket, "prefix": prefix, "delimiter": delimiter, "marker": marker, "maxKeys": most,
                "isTruncated": cut, "contents": contents}
        if delimiter:
            told["commonPrefixes"] = [{"prefix": f} for f in folders]
            if cut:
                told["nextMarker"] = last
        self.tell(told)


class Object:
    def __init__(self, body, meta, etag=None, mtime=None):
        self.body, self.meta = body, meta
        self.etag = etag or hashlib.md5(body).hexdigest()
        self.mtime = int(time.time() if mtime is None else mtime)


def missing():
    return Refusal(404, "NoSuchKey", "The specified key does not exist.")


class Folder:
    """What is in the folder now: a test may change it behind the server's back."""

    def __init__(self, root):
        self.root = root

    def keys(self):
        found = []
        for at, _, names in os.walk(self.root):
            found += [os.path.relpath(os.path.join(at, name), self.root) for name in names]
        return sorted(found, key=os.fsencode)

    def find(self, key):
        full = os.path.join(self.root, key)
        if not os.path.isfile(full):
            raise missing()
        with open(full, "rb") as source:
            return Object(source.read(), {}, mtime=os.stat(full).st_mtime)


class Memory:
    def __init__(self, folder):
        self.lock = threading.RLock()
        self.objects = {key: folder.find(key) for key in folder.keys()}
        self.uploads = {}

    def keys(self):
        with self.lock:
            return sorted(self.objects, key=os.fsencode)

    def find(self, key):
        found = self.objects.get(key)
        if not found:
            raise missing()
        return found

    def put(self, key, body, meta, etag=None):
        if len(os.fsencode(key)) > 1024:
            raise Refusal(400, "KeyTooLong", "Your key is too long.")
        self.objects[key] = Object(body, meta, etag)
        return self.objects[key]

    def begin(self, key):
        name = uuid.uuid4().hex
        self.uploads[name] = {"key": key, "parts": {}}
        return name

    def upload(self, key, name):
        found = self.uploads.get(name)
        if not found or found["key"] != key:
            raise Refusal(404, "NoSuchUpload", "The specified multipart upload does not exist.")
        return found

    def end(self, key, name, wanted, meta):
        parts, numbers = self.upload(key, name)["parts"], [p["partNumber"] for p in wanted]
        if not numbers or numbers != sorted(set(numbers)):
            raise Refusal(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
        if any(n not in parts or parts[n][1] != p["eTag"] for n, p in zip(numbers, wanted)):
            raise Refusal(400, "InvalidPart", "One or more of the specified parts could not be found.")
        if any(len(parts[n][0]) < 5 << 20 and len(parts[n][0]) % (1 << 20) for n in numbers[:-1]):
            raise Refusal(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed object size.")
        etag = "-" + hashlib.md5("".join(parts[n][1] for n in numbers).encode()).hexdigest()
        del self.uploads[name]
        return self.put(key, b"".join(parts[n][0] for n in numbers), meta, etag)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--root", "--bucket", "--key", "--secret", "--ready", "--log"):
        parser.add_argument(name, required=True)
    parser.add_argument("--token", default="")
    parser.add_argument("--page", type=int, default=1000)
    parser.add_argument("--writable", action="store_true")
    options = parser.parse_args()
    server = Server(("127.0.0.1", 0), Bos)
    server.bucket = Memory(Folder(options.root)) if options.writable else Folder(options.root)
    server.options, server.lock, server.log = options, threading.Lock(), open(options.log, "a", encoding="utf-8")
    with open(options.ready + ".part", "w", encoding="ascii") as out:
        out.write(str(server.server_address[1]))
    os.rename(options.ready + ".part", options.ready)
    server.serve_forever()


if __name__ == "__main__":
    main()
