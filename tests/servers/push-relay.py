"""Between a trainer and a parameter server: push-relay.py PUSH half|none FOLDER LISTEN-HOST SERVER-HOST PORT...

Forwards all bytes both ways, but of each connection's push number PUSH (from 1; trainer/ps-wire.h) one half, or none, is kept back
together with what follows it, until FOLDER/go is there. FOLDER/held appears with the first push that is held, FOLDER/relay-HOST when all
ports are listened at.
"""
import pathlib
import socket
import struct
import sys
import threading
import time

HEAD = struct.Struct("<IHHII")
MAGIC, PUSH = 0x31535053, 3

number, part, folder = int(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
listen, server, ports = sys.argv[4], sys.argv[5], [int(p) for p in sys.argv[6:]]


def hold():
    (folder / "held").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)


def whole(connection, size):
    got = b""
    while len(got) < size:
        more = connection.recv(size - len(got))
        if not more:
            return None
        got += more
    return got


def requests(trainer, to):
    pushes = 0
    while (head := whole(trainer, HEAD.size)) is not None:
        magic, kind, _, size, _ = HEAD.unpack(head)
        assert magic == MAGIC, head
        frame = head + (whole(trainer, size) or b"")
        pushes += kind == PUSH
        if kind == PUSH and pushes == number:
            first = len(frame) // 2 if part == "half" else 0
            to.sendall(frame[:first])
            hold()
            frame = frame[first:]
        to.sendall(frame)
    to.shutdown(socket.SHUT_WR)


def answers(of, trainer):
    while data := of.recv(1 << 16):
        trainer.sendall(data)
    trainer.shutdown(socket.SHUT_WR)


def ignoring_ends(forward, *ends):
    try:
        forward(*ends)
    except OSError:  # one of both has hung up
        pass


def connection(port):
    while True:
        try:
            return socket.create_connection((server, port))
        except OSError:  # it is not up yet
            time.sleep(0.02)


def serve(listener, port):
    while True:
        trainer = listener.accept()[0]
        to = connection(port)
        for forward, ends in ((requests, (trainer, to)), (answers, (to, trainer))):
            threading.Thread(target=ignoring_ends, args=(forward, *ends), daemon=True).start()


def main():
    threads = [threading.Thread(target=serve, args=(socket.create_server((listen, port)), port)) for port in ports]
    for thread in threads:
        thread.start()
    (folder / f"relay-{listen}").touch()


main()
