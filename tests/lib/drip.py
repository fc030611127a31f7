"""drip.py PORT CLIENTS: so many clients send a request's head, or its body, a byte now and then. Ends well when all were
cut off and another one was answered; waits for that, and never for a time."""
import http.client
import socket
import sys
import threading
import time

BEGINS = (b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ",
          b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")


def drip(port, begin, drop=b"x", seconds=400):
    """Is who begins so, and sends a drop now and then, cut off?"""
    s = socket.create_connection(("127.0.0.1", port))
    s.settimeout(0.1)
    end = time.monotonic() + seconds
    try:
        s.sendall(begin)
        while time.monotonic() < end:
            s.sendall(drop)
            try:
                if s.recv(4096) == b"":
                    return True
            except TimeoutError:
                pass
    except OSError:
        return True
    return False


def drip_all(port, slow, meanwhile=lambda: time.sleep(0.1)):
    """So do all (BEGIN, DROP) at once: are all cut off?"""
    ends = []
    threads = [threading.Thread(target=lambda one=one: ends.append(drip(port, *one))) for one in slow]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        meanwhile()
    return ends == [True] * len(slow)


def main(port, clients):
    cut_off = drip_all(port, [(BEGINS[i % len(BEGINS)], b"x") for i in range(clients)])
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=200)
    c.request("GET", "/healthz")
    return not cut_off or c.getresponse().status != 200


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
