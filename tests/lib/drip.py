"""drip.py PORT CLIENTS: so many clients send a request's head, or its body, a byte now and then. Ends well when all were
cut off and another one was answered; waits for that, and never for a time."""
import http.client
import socket
import sys
import threading
import time

port, clients = int(sys.argv[1]), int(sys.argv[2])
BEGINS = (b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ",
          b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
ends = []


def drip(begin):
    s = socket.create_connection(("127.0.0.1", port))
    s.settimeout(0.1)
    end = time.monotonic() + 200
    try:
        s.sendall(begin)
        while time.monotonic() < end:
            s.sendall(b"x")
            try:
                if s.recv(4096) == b"":
                    break
            except TimeoutError:
                pass
        else:
            return
    except OSError:
        pass
    ends.append(begin)


threads = [threading.Thread(target=drip, args=(BEGINS[i % len(BEGINS)],)) for i in range(clients)]
for t in threads:
    t.start()
for t in threads:
    t.join()
c = http.client.HTTPConnection("127.0.0.1", port, timeout=200)
c.request("GET", "/healthz")
sys.exit(len(ends) != clients or c.getresponse().status != 200)
