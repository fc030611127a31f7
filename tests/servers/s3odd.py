#!/usr/bin/env python3
"""An S3 of one bucket over a local folder that stands elsewhere than the client thinks.

    s3odd.py --root DIR --bucket NAME --ready FILE --log FILE [--address A] [--keys FILE] [--region R] [--redirect 301|400|307] [--skew SECONDS] [--life SECONDS]

What moto cannot show: it does not compute signatures (moto does, in other tests) but judges what they say.
    --keys FILE      lines "ACCESS-KEY [SESSION-TOKEN]", read anew for each request: others get InvalidAccessKeyId
    --region R       requests signed for another region are told so as --redirect says: 301 PermanentRedirect with
                     x-amz-bucket-region, or 400 AuthorizationHeaderMalformed with <Region>
    --skew SECONDS   this server's clock; requests dated more than 900 s away from it get RequestTimeTooSkewed
    --life SECONDS   of the credentials given out by the services below; older ones get ExpiredToken
On the same port: IMDSv2 (/latest/…, role "reader") and AssumeRoleWithWebIdentity (POST /, token file content
"proof"), and AssumeRole, signed within 900 s. Each request is one line of --log: METHOD TARGET ACCESS-KEY STATUS.
"""
import argparse
import datetime
import email.utils
import hashlib
import http.server
import os
import re
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape


class Refusal(Exception):
    def __init__(self, status, code, message="as told", extra="", headers=()):
        super().__init__(message)
        self.status, self.code, self.extra, self.headers = status, code, extra, dict(headers)


def iso(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Odd(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return email.utils.formatdate(self.now() if timestamp is None else timestamp, usegmt=True)

    def now(self):
        return time.time() + self.server.options.skew

    def answer(self, status, body, headers=()):
        with self.server.lock:
            self.server.log.write(f"{self.command} {self.path} {self.access} {status}\n")
            self.server.log.flush()
        self.send_response(status)
        for header in dict(headers).items():
            self.send_header(*header)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_one(self):
        self.access = "-"
        length = int(self.headers.get("Content-Length", 0))
        self.body = self.rfile.read(length) if length else b""
        path, _, query = self.path.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        try:
            if path.startswith("/latest/"):
                return self.metadata(path)
            if self.command == "POST" and path == "/":
                return self.assume_role()
            self.judge()
            bucket, _, key = urllib.parse.unquote(path).lstrip("/").partition("/")
            if bucket != self.server.options.bucket:
                raise Refusal(404, "NoSuchBucket")
            return self.read_object(key) if key else self.list_objects()
        except Refusal as why:
            text = f"<?xml version='1.0'?><Error><Code>{why.code}</Code><Message>{why}</Message>{why.extra}</Error>"
            self.answer(why.status, text.encode(), {"Content-Type": "application/xml", **why.headers})

    do_GET = do_HEAD = do_PUT = do_POST = handle_one

    # --- who asks, where and when

    def dated(self):
        return datetime.datetime.strptime(self.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc).timestamp()

    def judge(self):
        options = self.server.options
        found = re.match(r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d+/([^/]+)/s3/aws4_request,", self.headers.get("Authorization", ""))
        if not found:
            raise Refusal(403, "AccessDenied")
        self.access, region = found[1], found[2]
        if abs(self.dated() - self.now()) > 900:
            raise Refusal(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")
        if options.region and region != options.region:
            if options.redirect == 400:
                raise Refusal(400, "AuthorizationHeaderMalformed", f"the region '{region}' is wrong; expecting '{options.region}'",
                              f"<Region>{options.region}</Region>")
            raise Refusal(options.redirect, "PermanentRedirect", "use the right endpoint", "", {"x-amz-bucket-region": options.region})
        self.judge_key(self.headers.get("x-amz-security-token", ""))

    def judge_key(self, token):
        given = self.server.given
        if self.access in given:
            if given[self.access] < self.now():
                raise Refusal(400, "ExpiredToken", "The provided token has expired.")
            if token != "token-" + self.access:
                raise Refusal(400, "InvalidToken")
        elif self.server.options.keys:
            with open(self.server.options.keys, encoding="utf-8") as lines:
                known = dict((line.split() + [""])[:2] for line in lines if line.split())
            if known.get(self.access) != token:
                raise Refusal(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")

    # --- services that give out credentials

    def give(self, kind):
        with self.server.lock:
            access = f"{kind}{len(self.server.given)}"
            self.server.given[access] = self.now() + self.server.options.life
        return access, iso(self.server.given[access])

    def metadata(self, path):
        if self.command == "PUT" and path == "/latest/api/token":
            return self.answer(200, b"session")
        if self.headers.get("X-aws-ec2-metadata-token") != "session":
            raise Refusal(401, "Unauthorized")
        if path.endswith("/security-credentials/"):
            return self.answer(200, b"reader")
        access, until = self.give("IMDS")
        text = f'{{"Code":"Success","AccessKeyId":"{access}","SecretAccessKey":"s","Token":"token-{access}","Expiration":"{until}"}}'
        return self.answer(200, text.encode())

    def assume_role(self):
        form = dict(urllib.parse.parse_qsl(self.body.decode()))
        if form.get("Action") == "AssumeRole":
            if abs(self.dated() - self.now()) > 900:
                raise Refusal(403, "SignatureDoesNotMatch", "Signature expired")
        elif form.get("Action") != "AssumeRoleWithWebIdentity" or form.get("WebIdentityToken") != "proof":
            raise Refusal(400, "InvalidIdentityToken", "the token is not ours")
        access, until = self.give("STS")
        text = f"""<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{access}</AccessKeyId>
<SecretAccessKey>s</SecretAccessKey><SessionToken>token-{access}</SessionToken><Expiration>{until}</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""
        return self.answer(200, text.encode())

    # --- the bucket

    def read_object(self, key):
        full = os.path.join(self.server.options.root, key)
        if not os.path.isfile(full):
            raise Refusal(404, "NoSuchKey")
        with open(full, "rb") as source:
            data = source.read()
        tag = f'"{hashlib.md5(data).hexdigest()}"'
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not span:
            return self.answer(200, data, {"ETag": tag})
        first, last = int(span[1]), min(int(span[2] or len(data)), len(data) - 1)
        return self.answer(206, data[first:last + 1], {"ETag": tag, "Content-Range": f"bytes {first}-{last}/{len(data)}"})

    def list_objects(self):
        root, prefix, text = self.server.options.root, self.query.get("prefix", ""), ""
        for at, _, names in sorted(os.walk(root)):
            for name in sorted(names):
                full = os.path.join(at, name)
                key = os.path.relpath(full, root)
                if key.startswith(prefix):
                    with open(full, "rb") as source:
                        tag = hashlib.md5(source.read()).hexdigest()
                    text += (f"<Contents><Key>{escape(key)}</Key><LastModified>{iso(os.stat(full).st_mtime)}</LastModified>"
                             f"<ETag>&quot;{tag}&quot;</ETag><Size>{os.stat(full).st_size}</Size></Contents>")
        self.answer(200, f"<?xml version='1.0'?><ListBucketResult><IsTruncated>false</IsTruncated>{text}</ListBucketResult>".encode(),
                    {"Content-Type": "application/xml"})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--root", "--bucket", "--ready", "--log"):
        parser.add_argument(name, required=True)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--keys")
    parser.add_argument("--region")
    parser.add_argument("--redirect", type=int, default=301)
    parser.add_argument("--skew", type=float, default=0)
    parser.add_argument("--life", type=float, default=3600)
    options = parser.parse_args()
    server = Server((options.address, 0), Odd)
    server.options, server.lock, server.given = options, threading.Lock(), {}
    server.log = open(options.log, "a", encoding="utf-8")
    with open(options.ready + ".part", "w", encoding="ascii") as out:
        out.write(str(server.server_address[1]))
    os.rename(options.ready + ".part", options.ready)
    server.serve_forever()


if __name__ == "__main__":
    main()
