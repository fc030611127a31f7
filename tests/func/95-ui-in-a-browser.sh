#!/usr/bin/env bash
# The dashboard in a real browser: a token is asked for and kept out of every address; a click starts a
# warmup whose bar moves; a failure shows in plain words; the keyboard is enough; no other host is asked.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/serve.sh"
need_mount
command -v chromium >/dev/null || command -v google-chrome >/dev/null || skip "no Chromium here (apt-get install chromium)"
make_set --classes 4 --files 25 --size 20000
start_nginx
mount_set "$HTTP_URL/" --bandwidth 50KB # slow until it was paused, however long that takes
start_serve
rm "$SRC/class-003/000000.bin" # at the source: a warmup cannot have it
"$PYTHON" - "$SAMPAN_TESTS/lib" "$T" "http://127.0.0.1:$PORT" "$TOKEN" "$SAMPAN" "$MNT" <<'PY' || fail "the page does not do what it should"
import subprocess
import sys
sys.path.insert(0, sys.argv[1])
from browser import Browser, Failed
folder, base, token, sampan, mount = sys.argv[2:]

def expect(what, got, want):
    if got != want:
        raise Failed(f"{what}: got {got!r}, want {want!r}")

def focused():
    return b.js("document.activeElement.id || document.activeElement.tagName")

with Browser(folder) as b:
    b.prefer("light")
    b.open(base)
    expect("the address", b.js("location.pathname"), "/ui")

    # A token is asked for; a wrong one is refused in words; no answer came without one.
    b.wait("document.querySelector('#sign-in').open")
    expect("focus", focused(), "token")
    b.type("not-the-token-of-this-server")
    b.press("Enter")
    b.wait("document.querySelector('#sign-in-error').innerText.includes('does not take this token')")
    expect("samples before", b.text("#set-samples"), "–")
    b.js("document.querySelector('#token').focus()")
    b.type(token)
    b.press("Enter")
    b.wait("document.querySelector('#link').innerText === 'Live'")
    b.wait("document.querySelector('#set-samples').innerText.startsWith('100')")

    # A click starts a warmup, and its bar moves.
    value = "Number(document.querySelector('#warmup-bar').ariaValueNow || document.querySelector('#warmup-bar').getAttribute('aria-valuenow'))"
    b.click("#warmup-start")
    b.wait("document.querySelector('#warmup-state').innerText === 'Running'")
    first = b.wait(f"(v => v > 0 && v < 100 && v)({value})")
    second = b.wait(f"(v => v > {first} && v)({value})")
    wide = "document.querySelector('#warmup-bar > span').getBoundingClientRect().width"
    b.wait(f"{wide} > 0")

    # Pause and resume by the keyboard alone.
    for _ in range(40):
        if focused() == "warmup-pause":
            break
        b.press("Tab")
    expect("focus by Tab", focused(), "warmup-pause")
    b.press("Enter")
    b.wait("document.querySelector('#warmup-state').innerText === 'Paused'")
    subprocess.run([sampan, "set", mount, "bandwidth=0"], check=True)
    b.js("document.querySelector('#warmup-resume').focus()")
    b.press("Space")

    # One sample is gone at its source: the job fails, and the page says which and why.
    b.wait("document.querySelector('#problems').innerText.includes('class-003/000000.bin')", 60)
    b.wait("[...document.querySelectorAll('#job-rows .chip')].some(c => c.innerText === 'Failed')")
    b.wait("document.querySelector('#warmup-state').innerText === 'Not complete'")

    # A job of another kind, by its form; one with a bad name is refused in place.
    b.click("#job-new")
    expect("focus", focused(), "job-type")
    b.js("(t => { t.value = 'clear'; t.dispatchEvent(new Event('change')); })(document.querySelector('#job-type'))")
    b.js("document.querySelector('#job-paths').value = '../etc'")
    b.click("#job-submit")
    b.wait("document.querySelector('#job-error').innerText.includes('leads out of the set')")
    b.js("document.querySelector('#job-paths').value = 'class-000'; document.querySelector('#job-id').value = 'clear-one'")
    b.click("#job-submit")
    b.wait("!document.querySelector('#new-job').open")
    b.wait("[...document.querySelectorAll('#job-rows tr')].some(r => r.dataset.key === 'clear-one' && r.innerText.includes('Done'))")

    # What a screen reader is told.
    tree = b.tree()
    for role, name in [("heading", "Sampan"), ("button", "Start warmup"), ("progressbar", "Warmup"), ("heading", "Jobs")]:
        if (role, name) not in tree:
            raise Failed(f"not in the accessibility tree: {role} {name}: {tree}")
    nameless = [role for role, name in tree if role in ("button", "textbox", "combobox", "progressbar") and not name]
    expect("controls without a name", nameless, [])

    # Dark, narrow, still.
    b.prefer("dark", "reduce")
    expect("transition", b.js("getComputedStyle(document.querySelector('#warmup-bar > span')).transitionDuration"), "0s")
    if b.js("getComputedStyle(document.body).backgroundColor") == "rgb(244, 246, 247)":
        raise Failed("no dark theme")
    for width in (320, 390, 768, 1280):
        b.size(width, 800)
        expect(f"sideways scrolling at {width}", b.js("document.documentElement.scrollWidth > innerWidth"), False)

    # A new page of the same tab knows the token; signing out forgets it.
    b.open(base + "/ui")
    b.wait("document.querySelector('#link').innerText === 'Live'")
    b.click("#sign-out")
    b.wait("document.querySelector('#sign-in')?.open")
    expect("kept", b.js("JSON.stringify([Object.keys(sessionStorage), Object.keys(localStorage), document.cookie])"), '[[],[],""]')

    strangers = [url for url, _ in b.requests if not url.startswith(base + "/")]
    expect("requests to others", strangers, [])
    expect("addresses with the token", [url for url, _ in b.requests if token in url], [])
    expected = ("401 (Unauthorized)", "400 (Bad Request)", "/v1/members")
    expect("complaints", [c for c in b.complaints if not any(word in c for word in expected)], [])
PY
stop_serve
unmount
