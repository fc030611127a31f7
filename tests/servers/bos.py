#!/usr/bin/env python3
"""A small BOS over a local folder, which checks every request's bce-auth-v1 signature by itself.

    bos.py --root DIR --bucket NAME --key AK --secret SK [--token TOKEN] --ready FILE --log FILE [--page N]

Written from Baidu's description of the signature and of the operations, and from nothing of Sampan:
    prefix    = bce-auth-v1/AK/TIMESTAMP/SECONDS
    key       = hex(hmac-sha256(SK, prefix))
    signature = hex(hmac-sha256(key, METHOD \n URI \n QUERY \n HEADERS))
with every part encoded per RFC 3986, query and headers sorted, the host among the signed headers, and every
x-bce- header that is sent too. GET lists (prefix, delimiter, marker, maxKeys) and reads (with ranges); HEAD
tells. Without a delimiter a page names no nextMarker. Each request is a line of --log: METHOD TARGET RANGE STATUS.
"""
import argparse
import datetime
import hashlib
import hmac
import http.server
import json
import os
import re
import threading
import urllib.parse

SAFE = "-_.~"


class Refusal(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code = status, code


def encode(text, safe=SAFE):
    return urllib.parse.quote(text if isinstance(text, bytes) else text.encode("latin-1"), safe=safe)


def hex_hmac(key, text):
    return hmac.new(key.encode(), text.encode("latin-1"), hashlib.sha256).hexdigest()


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
        names = names.split(";")
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
        try:
            self.check_signature(path, query)
            bucket, _, key = os.fsdecode(urllib.parse.unquote_to_bytes(path)).lstrip("/").partition("/")
            if bucket != self.server.options.bucket:
                raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
            if key:
                self.read_object(key)
            else:
                self.list_objects(dict(urllib.parse.parse_qsl(query, keep_blank_values=True)))
        except Refusal as why:
            text = {"code": why.code, "message": str(why), "requestId": "00000000-0000-0000-0000-000000000000"}
            self.answer(why.status, json.dumps(text).encode(), {"Content-Type": "application/json; charset=utf-8"})

    do_GET = do_HEAD = handle_one

    def read_object(self, key):
        full = os.path.join(self.server.options.root, key)
        if not os.path.isfile(full):
            raise Refusal(404, "NoSuchKey", "The specified key does not exist.")
        with open(full, "rb") as source:
            data = source.read()
        headers = {"ETag": f'"{hashlib.md5(data).hexdigest()}"', "Content-Type": "application/octet-stream",
                   "Last-Modified": self.date_time_string(os.stat(full).st_mtime)}
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not span:
            return self.answer(200, data, {**headers, "Content-Length": str(len(data))})
        first, last = int(span[1]), min(int(span[2] or len(data)), len(data) - 1)
        if first > last:
            raise Refusal(416, "InvalidRange", "The requested range cannot be satisfied.")
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        return self.answer(206, data[first:last + 1], headers)

    def list_objects(self, query):
        root, prefix, delimiter = self.server.options.root, query.get("prefix", ""), query.get("delimiter", "")
        marker, most = query.get("marker", ""), min(int(query.get("maxKeys", 1000)), self.server.options.page)
        contents, folders, last, cut = [], [], "", False
        for key in self.server.keys():
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
            full = os.path.join(root, key)
            stamp = datetime.datetime.fromtimestamp(int(os.stat(full).st_mtime), datetime.timezone.utc)
            with open(full, "rb") as source:
                contents.append({"key": key, "lastModified": stamp.strftime("%Y-%m-%dT%H:%M:%SZ"),
                                 "eTag": hashlib.md5(source.read()).hexdigest(), "size": os.stat(full).st_size,
                                 "storageClass": "STANDARD", "owner": {"id": "o", "displayName": "o"}})
        told = {"name": self.server.options.bucket, "prefix": prefix, "delimiter": delimiter, "marker": marker, "maxKeys": most,
                "isTruncated": cut, "contents": contents}
        if delimiter:
            told["commonPrefixes"] = [{"prefix": f} for f in folders]
            if cut:
                told["nextMarker"] = last
        self.answer(200, json.dumps(told).encode(), {"Content-Type": "application/json; charset=utf-8"})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def keys(self):
        found = []
        for at, _, names in os.walk(self.options.root):
            found += [os.path.relpath(os.path.join(at, name), self.options.root) for name in names]
        return sorted(found, key=os.fsencode)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--root", "--bucket", "--key", "--secret", "--ready", "--log"):
        parser.add_argument(name, required=True)
    parser.add_argument("--token", default="")
    parser.add_argument("--page", type=int, default=1000)
    options = parser.parse_args()
    server = Server(("127.0.0.1", 0), Bos)
    server.options, server.lock, server.log = options, threading.Lock(), open(options.log, "a", encoding="utf-8")
    with open(options.ready + ".part", "w", encoding="ascii") as out:
        out.write(str(server.server_address[1]))
    os.rename(options.ready + ".part", options.ready)
    server.serve_forever()


if __name__ == "__main__":
    main()
