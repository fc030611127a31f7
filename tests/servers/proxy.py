#!/usr/bin/env python3
"""A small reverse proxy that misbehaves on request: what stands between Sampan and a real store in tests.

    proxy.py --to HOST:PORT --rules FILE --log FILE --ready FILE

Listens on a port the kernel chooses (written to --ready). Bytes and the Host header pass unchanged, so
signatures stay valid. Each answered request is one line of --log: METHOD TARGET RANGE STATUS BODY-BYTES.

FILE holds one rule a line, read anew for every request; the first rule that matches applies:

    FAULT[=VALUE] [key=WORD] [range] [times=N] [after=N]

key=WORD: only requests whose target has WORD; range: only those with a Range header; after=N: lets N
matching requests pass first; times=N: then applies to N requests only. Faults:
    status=503        answers this status with an S3 error body; the store is not asked
    latency=20ms      waits before the request goes on
    reset             closes the connection with a TCP reset in the middle of the body
    truncate          ends the body half way although the length said more
    stall             sends half of the body, then nothing until the client leaves
    stall-head        sends no answer at all until the client leaves
    etag=VALUE        answers with another ETag
    flip              one byte of the body is another
    rate=BYTES        passes the body at so many bytes a second
"""
import argparse
import asyncio
import os
import socket
import struct

S3_ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>made by the test proxy</Message></Error>"
CODES = {503: "SlowDown", 500: "InternalError", 403: "AccessDenied", 404: "NoSuchKey", 429: "TooManyRequests"}


class Rules:
    """The rule file, with the counters of after= and times=, which start anew when the file changes."""

    def __init__(self, path):
        self.path, self.stamp, self.rules = path, None, []

    def load(self):
        found = os.stat(self.path)
        stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
        if stamp == self.stamp:
            return
        self.stamp, self.rules = stamp, []
        with open(self.path, encoding="utf-8") as lines:
            for line in lines:
                words = line.split()
                if not words:
                    continue
                fault, _, value = words[0].partition("=")
                options = dict(w.partition("=")[::2] for w in words[1:])
                self.rules.append({"fault": fault, "value": value, "seen": 0, **options})

    def match(self, target, ranged):
        self.load()
        for rule in self.rules:
            if "key" in rule and rule["key"] not in target:
                continue
            if "range" in rule and not ranged:
                continue
            rule["seen"] += 1
            first = int(rule.get("after", 0))
            if rule["seen"] <= first or ("times" in rule and rule["seen"] > first + int(rule["times"])):
                continue
            return rule["fault"], rule["value"]
        return None, ""


async def read_head(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    return head, first.split(b" ", 2), headers


def seconds(text):
    return float(text[:-2]) / 1000 if text.endswith("ms") else float(text.rstrip("s"))


class Proxy:
    def __init__(self, options):
        host, _, port = options.to.rpartition(":")
        self.to, self.rules, self.log = (host, int(port)), Rules(options.rules), open(options.log, "a", encoding="latin-1")

    async def client(self, reader, writer):
        try:
            while await self.one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def one(self, reader, writer):
        head, (method, target, _), headers = await read_head(reader)
        body = await reader.readexactly(int(headers.get(b"content-length", 0)))
        where, ranged = target.decode("latin-1"), b"range" in headers
        fault, value = self.rules.match(where, ranged)

        def note(status, count):
            what = headers.get(b"range", b"-").decode("latin-1")
            self.log.write(f"{method.decode()} {where} {what} {status} {count}\n")
            self.log.flush()

        if fault == "latency":
            await asyncio.sleep(seconds(value))
        if fault == "stall-head":
            note(0, 0)
            return bool(await reader.read(1)) and False
        if fault == "status":
            text = S3_ERROR.format(code=CODES.get(int(value), "Error")).encode()
            if method == b"HEAD":
                text = b""
            writer.write(b"HTTP/1.1 %s Made\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s"
                         % (value.encode(), len(text), text))
            await writer.drain()
            note(int(value), len(text))
            return True
        return await self.pass_on(writer, reader, method, head + body, fault, value, note)

    async def pass_on(self, writer, client, method, request, fault, value, note):
        up_reader, up_writer = await asyncio.open_connection(*self.to, limit=1 << 20)
        try:
            # One request a connection on the store's side: its end ends a body without a length.
            up_writer.write(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            await up_writer.drain()
            head, (_, status, *_), headers = await read_head(up_reader)
            if fault == "etag":
                head = b"\r\n".join(b"ETag: " + value.encode() if line.lower().startswith(b"etag:") else line
                                    for line in head.split(b"\r\n"))
            length = headers.get(b"content-length")
            if length is not None:
                head = b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:"))
            whole = method == b"HEAD" or status in (b"204", b"304")
            left = 0 if whole else int(length) if length is not None else None
            note(int(status), -1 if left is None else left)
            await self.body(writer, client, up_reader, head, left, fault, value)
            return left is not None
        finally:
            up_writer.close()

    async def body(self, writer, client, up_reader, head, left, fault, value):
        """Passes the body, or as much of it as the fault allows."""
        sent, stop = 0, (left or 0) // 2 if fault in ("reset", "truncate", "stall") else None
        writer.write(head)
        while left is None or sent < left:
            want = 65536 if left is None else min(65536, left - sent)
            if stop is not None:
                want = min(want, stop - sent)
            if want == 0:
                return await self.cut(writer, client, fault, sent)
            piece = await up_reader.read(want)
            if not piece:
                break
            if fault == "flip" and sent == 0:
                piece = bytes([piece[0] ^ 0x40]) + piece[1:]
            if fault == "rate":
                await asyncio.sleep(len(piece) / float(value))
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
        await writer.drain()

    @staticmethod
    async def cut(writer, client, fault, sent):
        await writer.drain()
        if fault == "stall":
            await client.read(1)
        elif fault == "reset":
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        raise ConnectionResetError(sent)


async def main():
    parser = argparse.ArgumentParser()
    for name in ("--to", "--rules", "--log", "--ready"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    open(options.rules, "a", encoding="utf-8").close()
    proxy = Proxy(options)
    server = await asyncio.start_server(proxy.client, "127.0.0.1", 0, limit=1 << 20)
    with open(options.ready + ".part", "w", encoding="ascii") as out:
        out.write(str(server.sockets[0].getsockname()[1]))
    os.rename(options.ready + ".part", options.ready)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
