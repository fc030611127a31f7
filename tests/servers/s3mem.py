#!/usr/bin/env python3
"""s3mem: an S3 of one bucket in memory, for tests of what is written; judges no signature.

  s3mem.py [--port N]           prints "listening on PORT"; ends when its standard input ends
  s3mem.py --keep DIR --run PROGRAM ARGS…
                                what it holds is in files of DIR before it answers, and is found there at the start: who
                                records DIR has the server of any moment. PROGRAM finds it at $AWS_ENDPOINT_URL; its exit
                                status is the server's

Objects with metadata and ETags as S3 makes them, listings by page, copies (also of ranges, with If-Match),
uploads in parts. What nobody but the tests may do is below /_: GET
  /_set?NAME=VALUE        deny=1 answers 403 to what writes, deny=2 only to what deletes, fail=N 503 to the next N requests, down=1 drops all connections,
                          late=MS delays all answers, nocopy=1 answers 501 to copies of ranges, nocopy=2 to all copies, hold=1
                          keeps what writes waiting until hold=0, park=1 keeps each request waiting that comes until park=0, the Nth of
                          them until free=N, silent=1 does what ends an upload and answers it when silent=0,
                          lost=N does the next N of these and drops their connections, lostbegin=N so with what begins one, odd=1 makes ETags of nothing, as of
                          buckets that are encrypted with a key of their own
  /_uploads /_objects     how many uploads were begun and not ended; objects there are
  /_held                  requests that wait
  /_deny/KEY              answers 403 to what writes this key; of "" to none but what deny says
  /_count/METHOD          requests so far, "PUT" also counts parts; LIST, COPY, PART, ABORT, END (of an upload), DELETES by
                          their own names, /_count/parked what park=1 kept
  /_put/KEY?text=T        an object written by somebody else; /_delete/KEY; /_flip/KEY another first byte, and time: all other
                          metadata is kept, as s3fs does
  /_meta/KEY?name=N       a metadata value, /_md5/KEY its content's sum, /_history/KEY the sizes it had, by ','
"""
import argparse
import bisect
import hashlib
import http.server
import itertools
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.parse
from email.utils import formatdate
from pathlib import Path
from xml.sax.saxutils import escape

LOCK = threading.RLock()
GATE = threading.Condition(LOCK)  # settings changed
OBJECTS, UPLOADS, COUNTS, SETTINGS, HISTORY = {}, {}, {}, {}, {}
KEYS = []  # of OBJECTS, in order: a page of a listing costs that page, not all that the bucket holds


def etag_of(body):
    """`odd`: it says nothing of the bytes, and each write gives another one."""
    return os.urandom(16).hex() if SETTINGS.get("odd") else hashlib.md5(body).hexdigest()


class Object:
    def __init__(self, body, meta, etag=None, at=None):
        self.body, self.meta, self.at = body, meta, at or time.time()
        self.etag = etag or etag_of(body)


class Keep:
    """One file an object, upload or part: a line that says what it is, and its bytes. A name appears with all of it."""

    def __init__(self, folder):
        self.folder, self.files = Path(folder), {}

    def put(self, *name, body=b"", **head):
        if name not in self.files:
            self.files[name] = f"{len(self.files)}-{time.monotonic_ns()}"
        path = self.folder / self.files[name]
        new = path.with_suffix(".new")
        new.write_bytes(json.dumps({"name": name, **head}).encode() + b"\n" + body)
        new.rename(path)

    def drop(self, *name):
        for one in [n for n in self.files if n[:len(name)] == name]:
            (self.folder / self.files.pop(one)).unlink()

    @staticmethod
    def read(folder):
        for path in Path(folder).iterdir():
            if not path.suffix:
                head, _, body = path.read_bytes().partition(b"\n")
                yield path.name, json.loads(head), body

    def load(self):
        parts = []
        for file, head, body in self.read(self.folder):
            kind, *rest = head["name"]
            self.files[tuple(head["name"])] = file
            if kind == "object":
                hold(rest[0], Object(body, head["meta"], head["etag"], head["at"]))
            elif kind == "upload" and len(rest) == 1:
                UPLOADS[rest[0]] = (head["key"], head["meta"], {})
            else:
                parts.append((rest[0], rest[1], body, head["etag"]))
        for upload, number, body, etag in parts:
            if upload in UPLOADS:
                UPLOADS[upload][2][number] = (body, etag)


class Nothing:
    def put(self, *_, **__):
        pass

    drop = put


KEPT = Nothing()


class Refusal(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


def hold(key, thing):
    if key not in OBJECTS:
        bisect.insort(KEYS, key)
    OBJECTS[key] = thing


def store(key, thing):
    KEPT.put("object", key, body=thing.body, meta=thing.meta, etag=thing.etag, at=thing.at)
    hold(key, thing)
    HISTORY.setdefault(key, []).append(len(thing.body))


def remove(key):
    KEPT.drop("object", key)
    if OBJECTS.pop(key, None):
        del KEYS[bisect.bisect_left(KEYS, key)]


def names(prefix, delimiter, after):
    """Keys and common prefixes of a listing after the name `after`, in order."""
    at = bisect.bisect_left(KEYS, max(prefix, after))
    while at < len(KEYS) and KEYS[at].startswith(prefix):
        name, at = KEYS[at], at + 1
        cut = name.find(delimiter, len(prefix)) + 1 if delimiter else 0
        if cut:  # all that begins with it is this one name
            name = name[:cut]
            at = bisect.bisect_left(KEYS, name[:-1] + chr(ord(name[-1]) + 1), at)
        if name > after:
            yield name, OBJECTS[name] if not cut else None


class S3(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def handle_expect_100(self):
        told = super().handle_expect_100()
        self.wfile.flush()  # else a client that asks first waits a second before it sends
        return told

    def answer(self, status, body=b"", **headers):
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_one(self):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length) if length else b""
        path, _, query = self.path.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        path = urllib.parse.unquote(path)
        if path.startswith("/_"):
            return self.control(path)
        if self.command in ("PUT", "POST", "DELETE"):
            with GATE:
                COUNTS["held"] = COUNTS.get("held", 0) + 1
                GATE.wait_for(lambda: not SETTINGS.get("hold"))
                COUNTS["held"] -= 1
        if SETTINGS.get("park"):
            with GATE:
                mine = COUNTS["parked"] = COUNTS.get("parked", 0) + 1
                GATE.wait_for(lambda: SETTINGS.get("free", 0) >= mine)
        if SETTINGS.get("late"):
            time.sleep(SETTINGS["late"] / 1000)
        if SETTINGS.get("down"):
            self.close_connection = True
            return self.connection.close()
        _, _, rest = path.partition("/")
        _, _, key = rest.partition("/")
        try:
            with LOCK:
                if SETTINGS.get("fail"):
                    SETTINGS["fail"] -= 1
                    raise Refusal(503, "SlowDown")
                if self.denies(key):
                    raise Refusal(403, "AccessDenied")
                self.serve(key, body)
        except Refusal as why:
            text = f"<Error><Code>{why.code}</Code><Message>as told</Message></Error>"
            self.answer(why.status, text.encode())

    def denies(self, key):
        deletes = self.command == "DELETE" or "delete" in self.query
        writes = self.command in ("PUT", "POST", "DELETE")
        return {1: writes, 2: deletes}.get(SETTINGS.get("deny")) or (writes and key and key == SETTINGS.get("denied"))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one

    def count(self, what):
        COUNTS[what] = COUNTS.get(what, 0) + 1

    # --- what the tests ask

    def control(self, path):
        with LOCK:
            what, _, key = path[2:].partition("/")
            if what == "set":
                for name, value in self.query.items():
                    SETTINGS[name] = int(value)
                GATE.notify_all()
                text = "0"
            elif what == "deny":
                SETTINGS["denied"] = key
                text = "0"
            elif what == "held":
                text = str(COUNTS.get("held", 0))
            elif what == "uploads":
                text = str(len(UPLOADS))
            elif what == "objects":
                text = str(len(OBJECTS))
            elif what == "count":
                text = str(COUNTS.get(key, 0))
            elif what == "put":
                store(key, Object(self.query.get("text", "").encode(), {}))
                text = "0"
            elif what == "delete":
                remove(key)
                text = "0"
            elif what == "flip":
                old = OBJECTS[key]
                store(key, Object(bytes([old.body[0] ^ 255]) + old.body[1:], {**old.meta, "x-amz-meta-mtime": str(time.time())}))
                text = "0"
            elif what == "meta":
                text = OBJECTS[key].meta.get(self.query["name"], "") if key in OBJECTS else "-"
            elif what == "md5":
                text = hashlib.md5(OBJECTS[key].body).hexdigest() if key in OBJECTS else "-"
            elif what == "history":
                text = ",".join(map(str, HISTORY.get(key, [])))
            self.answer(200, text.encode())

    # --- S3

    def serve(self, key, body):
        method = self.command
        if method in ("GET", "HEAD") and key:
            self.count(method)
            return self.read(key)
        if method == "GET":
            self.count("LIST")
            return self.list_uploads() if "uploads" in self.query else self.list()
        if method == "PUT":
            self.count("PUT")
            return self.put(key, body)
        if method == "POST":
            return self.post(key, body)
        self.count("ABORT" if "uploadId" in self.query else "DELETE")
        if "uploadId" in self.query:
            if self.query["uploadId"] not in UPLOADS:
                raise Refusal(404, "NoSuchUpload")
            KEPT.drop("upload", self.query["uploadId"])
            del UPLOADS[self.query["uploadId"]]
        else:
            remove(key)
        return self.answer(204)

    def meta(self):
        return {n.lower(): v for n, v in self.headers.items() if n.lower().startswith("x-amz-meta-")}

    def find(self, key):
        if key not in OBJECTS:
            raise Refusal(404, "NoSuchKey")
        return OBJECTS[key]

    def read(self, key):
        thing = self.find(key)
        wanted = self.headers.get("If-Match")
        if wanted and wanted.strip('"') != thing.etag:
            raise Refusal(412, "PreconditionFailed")
        headers = {"ETag": f'"{thing.etag}"', "Last_Modified": formatdate(thing.at, usegmt=True)}
        headers.update({n.replace("-", "_"): v for n, v in thing.meta.items()})
        body, status = thing.body, 200
        ranged = self.headers.get("Range")
        if ranged and self.command == "GET":
            first, _, last = ranged.partition("=")[2].partition("-")
            first, last = int(first), min(int(last) if last else len(body) - 1, len(body) - 1)
            if first >= len(body):
                raise Refusal(416, "InvalidRange")
            headers["Content_Range"] = f"bytes {first}-{last}/{len(body)}"
            body, status = body[first:last + 1], 206
        self.answer(status, body, Content_Length=str(len(body)), **headers)

    def source(self):
        path = urllib.parse.unquote(self.headers["x-amz-copy-source"]).lstrip("/")
        thing = self.find(path.partition("/")[2])
        wanted = self.headers.get("x-amz-copy-source-if-match")
        if wanted and wanted.strip('"') != thing.etag:
            raise Refusal(412, "PreconditionFailed")
        return thing

    def put(self, key, body):
        upload = self.query.get("uploadId")
        copied = "x-amz-copy-source" in self.headers
        if upload is not None:
            self.count("PART")
            if upload not in UPLOADS:
                raise Refusal(404, "NoSuchUpload")
            if copied:
                if SETTINGS.get("nocopy"):
                    raise Refusal(501, "NotImplemented")
                first, _, last = self.headers["x-amz-copy-source-range"].partition("=")[2].partition("-")
                body = self.source().body[int(first):int(last) + 1]
                self.count("COPY")
            etag = etag_of(body)
            KEPT.put("upload", upload, int(self.query["partNumber"]), body=body, etag=etag)
            UPLOADS[upload][2][int(self.query["partNumber"])] = (body, etag)
        elif copied:
            if SETTINGS.get("nocopy") == 2:
                raise Refusal(501, "NotImplemented")
            self.count("COPY")
            old = self.source()
            replace = self.headers.get("x-amz-metadata-directive") == "REPLACE"
            thing = Object(old.body, self.meta() if replace else old.meta,
                           None if SETTINGS.get("odd") else old.etag)
            store(key, thing)
            etag = thing.etag
        else:
            thing = Object(body, self.meta())
            store(key, thing)
            etag = thing.etag
        if copied:
            return self.answer(200, f"<CopyResult><ETag>&quot;{etag}&quot;</ETag></CopyResult>".encode())
        return self.answer(200, ETag=f'"{etag}"')

    def post(self, key, body):
        if "delete" in self.query:
            self.count("DELETES")
            for part in body.decode().split("<Key>")[1:]:
                name = part.partition("</Key>")[0]
                for code, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
                    name = name.replace(code, char)
                remove(name)
            return self.answer(200, b"<DeleteResult></DeleteResult>")
        if "uploads" in self.query:
            upload = f"up{len(COUNTS)}-{time.monotonic_ns()}"
            KEPT.put("upload", upload, key=key, meta=self.meta())
            UPLOADS[upload] = (key, self.meta(), {})
            if SETTINGS.get("lostbegin"):
                SETTINGS["lostbegin"] -= 1
                self.close_connection = True
                return self.connection.shutdown(socket.SHUT_RDWR)
            text = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            return self.answer(200, text.encode())
        if self.query.get("uploadId") not in UPLOADS:
            raise Refusal(404, "NoSuchUpload")
        key, meta, parts = UPLOADS[self.query["uploadId"]]
        whole, sums, numbers = [], b"", []
        for piece in body.decode().split("<Part>")[1:]:
            number = int(piece.partition("<PartNumber>")[2].partition("<")[0])
            etag = piece.partition("<ETag>")[2].partition("<")[0].replace("&quot;", "").replace(chr(34), "")
            if number not in parts or parts[number][1] != etag:
                raise Refusal(400, "InvalidPart")
            whole.append(parts[number][0])
            sums += bytes.fromhex(etag)
            numbers.append(number)
        if not whole or numbers != sorted(numbers):
            raise Refusal(400, "InvalidPartOrder")
        if any(len(part) < 5 << 20 for part in whole[:-1]):
            raise Refusal(400, "EntityTooSmall")
        etag = f"{etag_of(sums)}-{len(whole)}"
        store(key, Object(b"".join(whole), meta, etag))
        KEPT.drop("upload", self.query["uploadId"])
        del UPLOADS[self.query["uploadId"]]
        self.count("END")
        if SETTINGS.get("lost"):
            SETTINGS["lost"] -= 1
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        GATE.wait_for(lambda: not SETTINGS.get("silent"))
        text = f"<CompleteMultipartUploadResult><ETag>&quot;{etag}&quot;</ETag></CompleteMultipartUploadResult>"
        return self.answer(200, text.encode())

    def list_uploads(self):
        prefix = self.query.get("prefix", "")
        text = "".join(f"<Upload><Key>{escape(u[0])}</Key><UploadId>{name}</UploadId></Upload>"
                       for name, u in UPLOADS.items() if u[0].startswith(prefix))
        self.answer(200, f"<ListMultipartUploadsResult>{text}</ListMultipartUploadsResult>".encode())

    def list(self):
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        after = self.query.get("continuation-token") or self.query.get("start-after", "")
        page = list(itertools.islice(names(prefix, delimiter, after), 1001))
        page, more = page[:1000], len(page) > 1000
        text = []
        for name, thing in page:
            coded = urllib.parse.quote(name, safe="/")
            if thing is None:
                text.append(f"<CommonPrefixes><Prefix>{coded}</Prefix></CommonPrefixes>")
            else:
                when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(thing.at))
                text.append(f"<Contents><Key>{coded}</Key><Size>{len(thing.body)}</Size>"
                            f"<ETag>&quot;{thing.etag}&quot;</ETag><LastModified>{when}</LastModified></Contents>")
        token = f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>" if more else ""
        self.answer(200, f"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>"
                         f"{token}{''.join(text)}</ListBucketResult>".encode())


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_):
        pass  # clients are killed in the middle of things


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--keep")
    parser.add_argument("--run", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.keep:
        global KEPT
        KEPT = Keep(options.keep)
        KEPT.load()
    server = Server(("127.0.0.1", options.port), S3)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if options.run:
        env = dict(os.environ, AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.server_port}", AWS_REGION="us-east-1")
        sys.exit(subprocess.run(options.run, env=env, check=False).returncode)
    print(f"listening on {server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
