#!/usr/bin/env python3
"""A small API server of Kubernetes, in memory: enough of its rules that an operator's mistakes show.

    kube.py --ready FILE --log FILE [--token TOKEN...] [--keep N] [--bookmarks S] [--play [--ends]]

Objects of any kind by their paths: create, get, list (limit and continue), watch (from a version, with
bookmarks), merge patch, the status subresource (a write to one part never changes the other), delete with
preconditions and finalizers. Answers have their members sorted. One counter of versions for all, as etcd has; a patch
whose metadata has an old resourceVersion is a 409, a version older than the last N (--keep) changes is a 410. What an owner's
death takes along goes at once, and so does what is made for an owner that has gone. The generation counts changes of the spec; an object's uid follows from its name and
from how many had that name before.

--play: what Kubernetes' own controllers and the sets' servers do (kubeplay.py) is done; --ends: pods of jobs that all
run have succeeded, too.

Without --token every bearer token is taken, and names who asks; "admin" is never put to a fault.
Each request is one line of --log: STATUS WHO METHOD TARGET BODY. POST /control {…} sets faults:
    {"fail": {"status": 429, "retry_after": 1, "n": 20, "method": "POST", "path": "/api"}}   the next n that match
    {"mend": true}           none of those any more
    {"down": 5}              no answer at all, and watches cut, for so many seconds
    {"cut": true}            cuts all watches now
    {"forget": true}         versions before this one are too old (410)
    {"delay": 0.2}           each answer waits
    {"tokens": ["a"]}        these alone are taken from now on
    {"kill": {"n": 7, "when": "before", "pids": {"a": 123}}}   the process of whoever makes the 7th write from now on
                             is killed, before that has had an effect or after; leases are not counted
    {"away": true}           the sets' servers answer nothing
    {"say": {"path": "/apis/…", "object": {…}}}   watches hear of an object that there is none of
    {"states": {"SERVICE.NS": {"warmup": "running"}}}   where jobs of a type are and stay, with that set's servers
It answers {"version", "watches", "requests", "writes", "killed", "jobs"}: writes since the last `kill`, whom that
killed, and the jobs that the sets' servers were given; with {"dump": true} all objects, too.
"""
import argparse
import base64
import bisect
import copy
import http.server
import json
import os
import signal
import socketserver
import threading
import time
import urllib.parse
import uuid

import kubeplay

REASONS = {400: "BadRequest", 401: "Unauthorized", 404: "NotFound", 409: "Conflict", 410: "Expired",
           422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


class Refusal(Exception):
    def __init__(self, status, message, reason=None, retry_after=None):
        super().__init__(message)
        self.status, self.reason, self.retry_after = status, reason or REASONS.get(status, "Unknown"), retry_after


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def merge(target, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merge(target.get(key), value)
    return target


def matches(selector, labels):
    for term in filter(None, (selector or "").split(",")):
        key, equal, value = term.partition("=")
        if key not in labels or (equal and labels[key] != value):
            return False
    return True


class Store:
    """Objects by (collection, namespace, name); `changes` is what watches read."""

    def __init__(self, keep):
        self.lock = threading.Condition()
        self.objects, self.changes = {}, []
        self.version, self.oldest, self.keep = 1, 0, keep
        self.faults, self.down_until, self.delay, self.cuts = [], 0, 0, 0
        self.watches, self.requests, self.tokens = 0, 0, {}
        self.only = []
        self.births, self.uids = {}, {}
        self.kill, self.writes, self.killed, self.writer = None, 0, None, None
        self.servers = None

    # --- the lock is held for all below ---

    def note(self, kind, key, obj):
        self.changes.append((int(obj["metadata"]["resourceVersion"]), kind, key, obj))
        if len(self.changes) > self.keep:
            self.oldest = self.changes[-self.keep - 1][0]
            self.changes = self.changes[-self.keep:]
        self.lock.notify_all()

    now = staticmethod(now)

    def since(self, version):
        return self.changes[bisect.bisect_right(self.changes, version, key=lambda c: c[0]):]

    def add(self, key, obj):
        nth = self.births[key] = self.births.get(key, 0) + 1
        obj["metadata"].update(uid=kubeplay.uid(key, nth), creationTimestamp=now(), generation=1,
                               managedFields=[{"manager": "test", "fieldsV1": {"f:x": {}}}])
        self.uids[obj["metadata"]["uid"]] = key
        return self.write("ADDED", key, obj)

    def owner(self, obj):
        uids = [r["uid"] for r in obj["metadata"].get("ownerReferences", [])]
        return next((self.objects[self.uids[uid]] for uid in uids if uid in self.uids), None)

    def kill_before(self):
        """A write comes: is it the one at which its process dies? What kill_after() is called for has an effect."""
        self.writes += 1
        if not self.kill or self.writes != self.kill["n"]:
            return None
        if self.kill["when"] == "before":
            self.kill_after()
        return self.kill["when"]

    def kill_after(self):
        os.kill(self.kill["pids"][self.writer], signal.SIGKILL)
        self.killed = self.writer

    def write(self, kind, key, obj):
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        if kind == "DELETED":
            self.objects.pop(key)
            self.uids.pop(obj["metadata"]["uid"], None)
            self.note(kind, key, obj)
            self.bury_children(obj["metadata"]["uid"])
        else:
            self.objects[key] = obj
            self.note(kind, key, obj)
        return obj

    def bury_children(self, uid):
        for key, obj in list(self.objects.items()):
            if any(r["uid"] == uid for r in obj["metadata"].get("ownerReferences", [])):
                self.delete(key, {})

    def delete(self, key, options):
        obj = copy.deepcopy(self.find(key))
        meta = obj["metadata"]
        wanted = options.get("preconditions", {}).get("uid")
        if wanted and wanted != meta["uid"]:
            raise Refusal(409, f"the UID in the precondition ({wanted}) does not match {meta['uid']}")
        if meta.get("finalizers"):
            if "deletionTimestamp" not in meta:
                meta["deletionTimestamp"] = now()
                self.write("MODIFIED", key, obj)
            return obj
        self.write("DELETED", key, obj)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"uid": meta["uid"]}}

    def find(self, key):
        if key not in self.objects:
            raise Refusal(404, f'{key[0].rsplit("/", 1)[-1]} "{key[2]}" not found')
        return self.objects[key]

    def fault(self, method, path):
        for f in self.faults:
            if f["n"] > 0 and f.get("method", method) == method and path.startswith(f.get("path", "")):
                f["n"] -= 1
                return f
        return None


class Place:
    """/apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME/status and its shorter forms."""

    def __init__(self, path):
        words = path.strip("/").split("/")
        head = 2 if words[0] == "api" else 3
        if words[0] not in ("api", "apis") or len(words) <= head:
            raise Refusal(404, "the server could not find the requested resource")
        base, rest = words[:head], words[head:]
        self.namespace = None
        if rest[0] == "namespaces" and len(rest) > 2:
            self.namespace, rest = rest[1], rest[2:]
        self.collection = "/".join(base + rest[:1])
        self.name = rest[1] if len(rest) > 1 else None
        self.status = len(rest) > 2 and rest[2] == "status"
        self.key = (self.collection, self.namespace, self.name)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def who(self):
        _, _, token = (self.headers.get("Authorization") or "").partition(" ")
        return token.strip() or "-"

    # --- answers ---

    def note(self, status, body=b""):
        with self.server.log_lock:
            text = body.decode("utf-8", "replace").replace("\n", " ")
            self.server.log.write(f"{status} {self.who()} {self.command} {self.path} {text}\n")
            self.server.log.flush()

    def answer(self, status, obj, retry_after=None):
        body = json.dumps(obj, sort_keys=True).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, r):
        self.answer(r.status, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": r.status,
                               "reason": r.reason, "message": str(r)}, r.retry_after)

    def serve(self):
        store = self.server.store
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        admin = self.who() == "admin"
        if time.monotonic() < store.down_until and self.path != "/control" and not admin:
            self.close_connection = True
            return
        if store.delay and not admin:
            time.sleep(store.delay)
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        status = 200
        try:
            if url.path == "/control":
                self.answer(200, self.control(json.loads(body) if body else {}))
                return
            if store.only and not admin and self.who() not in store.only:
                raise Refusal(401, "Unauthorized")
            with store.lock:
                store.requests += 1
                fault = None if admin else store.fault(self.command, url.path)
                kill = None
                if not admin and self.command != "GET" and "/leases" not in url.path:
                    store.writer = self.who()
                    kill = store.kill_before()
            if kill == "before":
                self.close_connection = True
                return
            if fault:
                raise Refusal(fault["status"], "as it was asked for", retry_after=fault.get("retry_after"))
            place = Place(url.path)
            if self.command == "GET" and not place.name:
                if query.get("watch"):
                    self.watch(place, query)
                    return
                obj = self.list(place, query)
            else:
                status, obj = self.one(place, body)
            if kill == "after":
                with store.lock:
                    store.kill_after()
                self.close_connection = True
            self.note(status, body)
            self.answer(status, obj)
        except Refusal as r:
            self.note(r.status, body)
            self.refuse(r)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve

    def control(self, what):
        store = self.server.store
        with store.lock:
            if "fail" in what:
                store.faults.append(what["fail"])
            if what.get("mend"):
                store.faults = []
            if "down" in what:
                store.down_until = time.monotonic() + what["down"]
                store.cuts += 1
            if what.get("cut"):
                store.cuts += 1
            if what.get("forget"):
                store.oldest, store.changes = store.version, []
            store.delay = what.get("delay", store.delay)
            store.only = what.get("tokens", store.only)
            if "say" in what:
                store.version += 1
                said = what["say"]["object"]
                said["metadata"]["resourceVersion"] = str(store.version)
                store.note("ADDED", Place(what["say"]["path"]).key, said)
            if "kill" in what:
                store.kill, store.writes, store.killed = what["kill"], 0, None
            if store.servers and "away" in what:
                store.servers.away = what["away"]
            if store.servers and "states" in what:
                store.servers.states.update(what["states"])
            store.lock.notify_all()
            objects = {"objects": list(store.objects.values())} if what.get("dump") else {}
            return {**objects, "version": store.version, "watches": store.watches, "requests": store.requests, "writes": store.writes,
                    "killed": store.killed, "jobs": store.servers.jobs if store.servers else {}}

    # --- one object ---

    def one(self, place, body):
        sent = json.loads(body) if body else {}
        store = self.server.store
        with store.lock:
            if self.command == "GET":
                return 200, store.find(place.key)
            if self.command == "POST":
                return 201, self.create(place, sent)
            if self.command == "DELETE":
                return 200, store.delete(place.key, sent)
            if self.command == "PATCH" and "merge-patch" in self.headers.get("Content-Type", ""):
                return 200, self.patch(place, sent)
        raise Refusal(415, "only merge patches are understood", "UnsupportedMediaType")

    def create(self, place, obj):
        store = self.server.store
        meta = obj.setdefault("metadata", {})
        if not meta.get("name") or not obj.get("kind") or not obj.get("apiVersion"):
            raise Refusal(422, "metadata.name, kind and apiVersion are required")
        key = (place.collection, place.namespace, meta["name"])
        if key in store.objects:
            raise Refusal(409, f'"{meta["name"]}" already exists', "AlreadyExists")
        if place.namespace:
            meta["namespace"] = place.namespace
        if obj["kind"] == "Secret":
            for name, text in obj.pop("stringData", {}).items():
                obj.setdefault("data", {})[name] = base64.b64encode(text.encode()).decode()
        made = store.add(key, obj)
        if meta.get("ownerReferences") and not store.owner(obj):
            store.delete(key, {})
        return made

    def patch(self, place, sent):
        store = self.server.store
        old = store.find(place.key)
        version = sent.get("metadata", {}).get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise Refusal(409, "the object has been modified; please apply your changes to the latest version")
        new = merge(copy.deepcopy(old), sent)
        if place.status:
            new = {**copy.deepcopy(old), "status": new.get("status")}
            if new["status"] is None:
                del new["status"]
        elif "status" in old or "status" in new:
            if "status" in old:
                new["status"] = copy.deepcopy(old["status"])
            else:
                del new["status"]
        for field in ("resourceVersion", "uid", "creationTimestamp", "generation", "name"):
            new["metadata"][field] = old["metadata"][field]
        if not new["metadata"].get("finalizers"):
            new["metadata"].pop("finalizers", None)
        if new == old:
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        if "deletionTimestamp" in new["metadata"] and "finalizers" not in new["metadata"]:
            return store.write("DELETED", place.key, new)
        return store.write("MODIFIED", place.key, new)

    # --- lists and watches ---

    def selected(self, place, query, key, obj):
        return (key[0] == place.collection and (not place.namespace or key[1] == place.namespace)
                and matches(query.get("labelSelector"), obj["metadata"].get("labels", {})))

    def list(self, place, query):
        store = self.server.store
        limit = int(query.get("limit") or 0)
        with store.lock:
            token = query.get("continue")
            if token:
                found, version = store.tokens.pop(token)
                if int(version) < store.oldest:
                    raise Refusal(410, "the continue token is too old")
            else:
                found = [o for k, o in sorted(store.objects.items(), key=lambda kv: str(kv[0]))
                         if self.selected(place, query, k, o)]
                version = str(store.version)
            meta = {"resourceVersion": version}
            if limit and len(found) > limit:
                token = str(uuid.uuid4())
                store.tokens[token] = (found[limit:], version)
                meta["continue"] = token
                found = found[:limit]
        items = [{k: v for k, v in o.items() if k not in ("kind", "apiVersion")} for o in found]
        return {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items}

    def chunk(self, event):
        text = json.dumps(event, sort_keys=True).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))

    def watch(self, place, query):
        store = self.server.store
        since = int(query.get("resourceVersion") or 0)
        end = time.monotonic() + float(query.get("timeoutSeconds") or 300)
        with store.lock:
            if since < store.oldest:
                raise Refusal(410, f"too old resource version: {since} ({store.oldest})")
            cuts = store.cuts
            store.watches += 1
        self.note(200)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        try:
            self.follow(place, query, since, end, cuts)
        finally:
            with store.lock:
                store.watches -= 1

    def follow(self, place, query, since, end, cuts):
        store = self.server.store
        bookmark = time.monotonic() + self.server.bookmarks
        while time.monotonic() < end:
            with store.lock:
                if store.cuts != cuts:
                    return
                if since < store.oldest:
                    news, gone = [], True
                else:
                    at = bisect.bisect_right(store.changes, since, key=lambda c: c[0])
                    news, gone = store.changes[at:], False
                if not news and not gone:
                    store.lock.wait(max(0.01, min(end, bookmark) - time.monotonic()))
            if gone:
                self.chunk({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}})
                break
            for version, kind, key, obj in news:
                since = version
                if self.selected(place, query, key, obj):
                    self.chunk({"type": kind, "object": obj})
            if time.monotonic() >= bookmark and query.get("allowWatchBookmarks"):
                bookmark = time.monotonic() + self.server.bookmarks
                self.chunk({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(since)}}})
        self.wfile.write(b"0\r\n\r\n")


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass  # a client that was killed


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ready", required=True)
    p.add_argument("--log", required=True)
    p.add_argument("--token", action="append", default=[])
    p.add_argument("--keep", type=int, default=10000)
    p.add_argument("--bookmarks", type=float, default=60)
    p.add_argument("--play", action="store_true")
    p.add_argument("--ends", action="store_true")
    o = p.parse_args()
    server = Server(("127.0.0.1", 0), Handler)
    server.store, server.bookmarks = Store(o.keep), o.bookmarks
    server.store.only = o.token
    if o.play:
        kubeplay.play(server.store, o.ends)
    server.log, server.log_lock = open(o.log, "a", encoding="utf-8"), threading.Lock()
    with open(o.ready + ".new", "w", encoding="utf-8") as f:
        f.write(str(server.server_address[1]))
    os.rename(o.ready + ".new", o.ready)
    server.serve_forever()


if __name__ == "__main__":
    main()
