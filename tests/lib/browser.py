"""A headless Chromium driven over its DevTools pipe, for tests of the dashboard. No package is needed.

    with Browser(folder) as b:
        b.open("http://127.0.0.1:7716/ui")
        b.wait("document.querySelector('#sign-in').open")
        b.type("TOKEN"); b.press("Enter")

Every request that the page makes is in b.requests as (URL, headers), every line of its console and every
breach of its content security policy in b.complaints. Nothing waits for a time: wait() polls a condition.
"""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-default-browser-check",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
         "--disable-dev-shm-usage", "--disable-default-apps", "--metrics-recording-only", "--hide-scrollbars",
         "--force-color-profile=srgb", "--remote-debugging-pipe"]
KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), "Space": (32, " "), "ArrowLeft": (37, ""),
        "ArrowRight": (39, ""), "ArrowDown": (40, "")}


def program():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Failed(Exception):
    pass


class Browser:
    def __init__(self, folder, width=1280, height=900):
        self.requests, self.complaints, self.answers, self.next_id, self.data = [], [], {}, 0, b""
        to_browser, self.to = os.pipe()
        self.back, from_browser = os.pipe()
        log = open(os.path.join(folder, "chromium.log"), "wb")
        profile = os.path.join(folder, "profile")
        os.makedirs(profile)

        def fds():
            # Out of the way first: either may be 3 or 4 already.
            a, b = os.dup(to_browser), os.dup(from_browser)
            a, b = (os.dup(a), os.dup(b)) if {a, b} & {3, 4} else (a, b)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program(), *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=fds, close_fds=False, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.session = None
        target = self.wait_for_page()
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(f"{domain}.enable")
        self.size(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process.poll() is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
        os.close(self.to)
        os.close(self.back)

    def wait_for_page(self):
        for _ in range(600):
            pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
            if pages:
                return pages[0]["targetId"]
            time.sleep(0.05)
        raise Failed("the browser opens no page")

    # --- the wire: JSON messages, each ended by a zero byte ---------------------------------------

    def call(self, method, **params):
        self.next_id += 1
        number = self.next_id
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 600
        while number not in self.answers:
            self.read(end)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise Failed(f"{method}: {answer['error']}")
        return answer["result"]

    def read(self, end):
        if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
            raise Failed("the browser does not answer")
        got = os.read(self.back, 1 << 20)
        if not got:
            raise Failed("the browser has ended")
        *messages, self.data = (self.data + got).split(b"\0")
        for text in messages:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.event(message["method"], message.get("params", {}))

    def event(self, method, params):
        if method == "Network.requestWillBeSent":
            self.requests.append((params["request"]["url"], params["request"]["headers"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:2000])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"])[:2000])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))

    # --- what tests do ----------------------------------------------------------------------------

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise Failed(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, seconds=30):
        end = time.monotonic() + 10 * seconds
        while True:
            value = self.js(expression)
            if value:
                return value
            if time.monotonic() > end:
                raise Failed(f"never true: {expression}; the page says: {self.js('document.body.innerText')}")
            time.sleep(0.05)

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText")

    def click(self, selector):
        """As a mouse does: at the middle of what is seen."""
        box = self.js(f"""(() => {{ const n = document.querySelector({json.dumps(selector)}); n.scrollIntoView({{block: "center"}});
            const r = n.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2, r.width]; }})()""")
        if not box[2]:
            raise Failed(f"{selector} is not to be seen")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def press(self, key, shift=False):
        code, text = KEYS[key]
        common = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme, motion="no-preference"):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme},
                                                          {"name": "prefers-reduced-motion", "value": motion}])

    def tree(self):
        """The accessibility tree as (role, name) of all that a screen reader is told of."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(n.get("role", {}).get("value"), n.get("name", {}).get("value", "")) for n in nodes if not n.get("ignored")]

    def picture(self, path, whole=True):
        params = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            params["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot", **params)["data"]))
