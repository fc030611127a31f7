#!/usr/bin/env python3
"""A small WebHDFS over a local folder: a name node and a data node, written from Hadoop's REST description.

    webhdfs.py --root DIR --ready FILE --log FILE [--user NAME] [--page N] [--no-batch] [--standby]

The name node (its port is written to --ready) lists and tells; it never sends a file's bytes: OPEN and
CREATE are answered by 307 to the data node, on a port of its own, which closes each connection as Hadoop's does.
    --user NAME   only this user.name may read below the root; others get AccessControlException
    --page N      entries of one LISTSTATUS_BATCH page (1000)
    --no-batch    knows LISTSTATUS alone and no rename that replaces, as servers before Hadoop 2.8
    --stall FILE  while FILE is there, a data node takes half of what it is sent and no more, until the sender goes
    --lose FILE   while FILE is there: takes it away, and a rename or the delete of a folder is done without an answer
    --gone        answers 404 to the delete of what is not there, as some gateways do
    --standby     a name node that is not the active one
Each request is one line of --log: SERVER METHOD TARGET STATUS.
"""
import argparse
import http.server
import json
import os
import select
import threading
import urllib.parse

PREFIX = "/webhdfs/v1"


class Refusal(Exception):
    def __init__(self, status, exception, message):
        super().__init__(message)
        self.status, self.exception = status, exception


def status_of(full, name):
    found = os.lstat(full)
    folder = os.path.isdir(full)
    return {"accessTime": 0, "blockSize": 0 if folder else 134217728, "childrenNum": 0, "fileId": found.st_ino,
            "group": "supergroup", "length": 0 if folder else found.st_size, "modificationTime": found.st_mtime_ns // 1000000,
            "owner": "hdfs", "pathSuffix": name, "permission": "755" if folder else "644",
            "replication": 0 if folder else 3, "storagePolicy": 0, "type": "DIRECTORY" if folder else "FILE"}


class Node(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def log_message(self, *_):
        pass

    def note(self, status):
        with self.server.lock:
            self.server.log.write(f"{self.server.kind} {self.command} {self.path} {status}\n")
            self.server.log.flush()

    def answer(self, status, body=b"", headers=()):
        self.note(status)
        self.send_response(status)
        for header in headers:
            self.send_header(*header)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def tell(self, what):
        self.answer(200, json.dumps(what).encode(), [("Content-Type", "application/json")])

    def handle_one(self):
        target = urllib.parse.urlsplit(self.path)
        self.query = {k.lower(): v[0] for k, v in urllib.parse.parse_qs(target.query, keep_blank_values=True).items()}
        try:
            if not target.path.startswith(PREFIX + "/"):
                raise Refusal(404, "NotFoundException", "no such resource")
            self.name = urllib.parse.unquote(target.path[len(PREFIX):])
            self.full = os.path.join(self.server.root, self.name.strip("/"))
            operation = self.query.get("op", "").upper()
            do = getattr(self, f"{self.command.lower()}_{operation.lower()}", None)
            if not do:
                raise Refusal(400, "IllegalArgumentException", f'Invalid value for webhdfs parameter "op": No enum constant {operation}')
            self.check()
            do()
        except Refusal as why:
            text = {"RemoteException": {"exception": why.exception, "javaClassName": f"java.io.{why.exception}", "message": str(why)}}
            self.answer(why.status, json.dumps(text).encode(), [("Content-Type", "application/json")])
        except FileNotFoundError:
            text = {"RemoteException": {"exception": "FileNotFoundException", "javaClassName": "java.io.FileNotFoundException",
                                        "message": f"File {self.name} does not exist."}}
            self.answer(404, json.dumps(text).encode(), [("Content-Type", "application/json")])

    do_GET = do_PUT = do_DELETE = do_POST = handle_one

    def check(self):
        pass


class NameNode(Node):
    def check(self):
        options = self.server.options
        if options.standby:
            raise Refusal(403, "StandbyException", "Operation category READ is not supported in state standby")
        if "user.name" not in self.query:
            raise Refusal(401, "AuthenticationException", "Authentication required")
        user = self.query["user.name"]
        if options.user and user != options.user:
            raise Refusal(403, "AccessControlException", f'Permission denied: user={user}, access=READ_EXECUTE, inode="{self.name}"')

    def statuses(self):
        if not os.path.isdir(self.full):
            return [status_of(self.full, "")]
        return [status_of(os.path.join(self.full, name), name) for name in sorted(os.listdir(self.full), key=os.fsencode)]

    def get_liststatus(self):
        self.tell({"FileStatuses": {"FileStatus": self.statuses()}})

    def get_liststatus_batch(self):
        if self.server.options.no_batch:
            raise Refusal(400, "IllegalArgumentException", 'Invalid value for webhdfs parameter "op": No enum constant LISTSTATUS_BATCH')
        after = os.fsencode(self.query.get("startafter", ""))
        rest = [s for s in self.statuses() if not after or os.fsencode(s["pathSuffix"]) > after]
        page = rest[:self.server.options.page]
        self.tell({"DirectoryListing": {"partialListing": {"FileStatuses": {"FileStatus": page}}, "remainingEntries": len(rest) - len(page)}})

    def get_getfilestatus(self):
        self.tell({"FileStatus": status_of(self.full, "")})

    def to_data_node(self):
        target = f"http://127.0.0.1:{self.server.data_port}{self.path}&namenoderpcaddress=127.0.0.1:8020"
        self.answer(307, b"", [("Location", target), ("Content-Type", "application/octet-stream")])

    def get_open(self):
        size, offset = os.stat(self.full).st_size, int(self.query.get("offset", 0))
        if offset < 0 or (offset >= size and size > 0):
            raise Refusal(403, "IOException", f"Offset={offset} out of the range [0, {size}); OPEN, path={self.name}")
        self.to_data_node()

    def put_create(self):
        if int(self.headers.get("Content-Length", 0)):
            raise Refusal(400, "IllegalArgumentException", "the first step takes no data")
        if os.path.isdir(self.full):
            raise Refusal(403, "FileAlreadyExistsException", f"{self.name} already exists as a directory")
        self.to_data_node()

    def post_append(self):
        if int(self.headers.get("Content-Length", 0)):
            raise Refusal(400, "IllegalArgumentException", "the first step takes no data")
        os.stat(self.full)
        self.to_data_node()

    def put_rename(self):
        to = os.path.join(self.server.root, self.query["destination"].strip("/"))
        if self.query.get("renameoptions", "") == "OVERWRITE" and not self.server.options.no_batch:
            os.rename(self.full, to)
            if not self.lost():
                self.answer(200)
            return
        free = os.path.lexists(self.full) and not os.path.lexists(to) and os.path.isdir(os.path.dirname(to))
        if free:
            os.rename(self.full, to)
        if not self.lost():
            self.tell({"boolean": free})

    def lost(self):
        if not self.server.options.lose or not os.path.exists(self.server.options.lose):
            return False
        os.unlink(self.server.options.lose)
        self.close_connection = True
        return True

    def put_mkdirs(self):
        os.makedirs(self.full, exist_ok=True)
        self.tell({"boolean": True})

    def delete_delete(self):
        there = os.path.lexists(self.full)
        if not there and self.server.options.gone:
            raise FileNotFoundError
        if os.path.isdir(self.full) and not os.path.islink(self.full):
            if os.listdir(self.full):
                raise Refusal(403, "PathIsNotEmptyDirectoryException", f"`{self.name} is non empty': Directory is not empty")
            os.rmdir(self.full)
            if self.lost():
                return
        elif there:
            os.unlink(self.full)
        self.tell({"boolean": there})


class DataNode(Node):
    def get_open(self):
        with open(self.full, "rb") as data:
            data.seek(int(self.query.get("offset", 0)))
            body = data.read(int(self.query.get("length", -1)))
        self.close_connection = True
        self.answer(200, body, [("Content-Type", "application/octet-stream"), ("Connection", "close")])

    def take(self, how):
        """What has come is the file, also if the sender goes away in the middle: so does Hadoop's."""
        size = int(self.headers.get("Content-Length", 0))
        stalls = self.server.options.stall and os.path.exists(self.server.options.stall)
        with open(self.full, how) as out:
            out.write(self.rfile.read(size // 2 if stalls else size))
        if stalls:
            select.select([], [], [self.connection], 60)

    def put_create(self):
        os.makedirs(os.path.dirname(self.full), exist_ok=True)
        self.take("wb")
        self.close_connection = True
        self.answer(201, b"", [("Location", f"hdfs://127.0.0.1:8020{urllib.parse.quote(self.name)}"), ("Connection", "close")])

    def post_append(self):
        self.take("ab")
        self.close_connection = True
        self.answer(200, b"", [("Connection", "close")])


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def serve(kind, handler, options, log, lock):
    server = Server(("127.0.0.1", 0), handler)
    server.kind, server.options, server.root, server.log, server.lock = kind, options, options.root, log, lock
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--root", "--ready", "--log"):
        parser.add_argument(name, required=True)
    parser.add_argument("--user")
    parser.add_argument("--page", type=int, default=1000)
    parser.add_argument("--no-batch", action="store_true")
    parser.add_argument("--standby", action="store_true")
    parser.add_argument("--stall")
    parser.add_argument("--lose")
    parser.add_argument("--gone", action="store_true")
    options = parser.parse_args()
    log, lock = open(options.log, "a", encoding="utf-8", errors="replace"), threading.Lock()
    data = serve("data", DataNode, options, log, lock)
    name = serve("name", NameNode, options, log, lock)
    name.data_port = data.server_address[1]
    with open(options.ready + ".part", "w", encoding="ascii") as out:
        out.write(str(name.server_address[1]))
    os.rename(options.ready + ".part", options.ready)
    threading.Event().wait()


if __name__ == "__main__":
    main()
