"""What kubelet would do, timed: prints one object of figures. Runs in .venv (grpcio), started by rows_csi.py.

    csi_client.py FOLDER FIRST.json       FIRST.json: {"attributes": {...}, "sample": "path in the set"} or null
"""
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
folder = sys.argv[1]
os.environ["T"] = folder
os.makedirs(os.path.join(folder, "log"), exist_ok=True)
from csi import Plugin, mounts  # noqa: E402

VOLUMES, CYCLES = 50, 100


def small_sets():
    for i in range(VOLUMES):
        where = os.path.join(folder, "sets", f"{i:02d}")
        os.makedirs(where, exist_ok=True)
        with open(os.path.join(where, "sample"), "wb") as f:
            f.write(os.urandom(4096))
        yield f"file://{where}"


def at_once(plugin, method, requests):
    for call in [plugin.begin(method, **fields) for fields in requests]:
        call.result()


def parallel(plugin, uris):
    began = time.monotonic()
    at_once(plugin, "NodeStageVolume", [plugin.stage_fields(f"v{i}", uri=uri) for i, uri in enumerate(uris)])
    took = time.monotonic() - began
    at_once(plugin, "NodeUnstageVolume", [{"volume_id": f"v{i}", "staging_target_path": plugin.staging(f"v{i}")} for i in range(len(uris))])
    return took


def one_cycle(plugin, uri):
    plugin.stage("cycle", uri=uri)
    target = plugin.publish("cycle", "pod")
    with open(os.path.join(target, "sample"), "rb") as f:
        f.read()
    plugin.unpublish("cycle", "pod")
    plugin.unstage("cycle")


def children_of(folders):
    """Processes whose words name one of the folders, the plugin aside."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read()
        except OSError:
            continue
        if any(name.encode() in words for name in folders) and b"sampan-csi" not in words and int(pid) != os.getpid():
            found.append(pid)
    return found


def left(plugin):
    give_up = time.monotonic() + 30  # an owner that was told to end may still write its index
    while children_of([plugin.state]) and time.monotonic() < give_up:
        time.sleep(0.1)
    records = [os.path.join(d, f) for top in (plugin.state, plugin.run) for d, _, names in os.walk(top) for f in names]
    return {"mounts": len(mounts()), "processes": len(children_of([plugin.state])), "files": len(records)}


def first_byte(plugin, first):
    """Stage, publish and read one sample; the first time the catalog comes along."""
    took = []
    for _ in range(4):
        began = time.monotonic()
        plugin.stage("first", **first["attributes"])
        target = plugin.publish("first", "pod")
        with open(os.path.join(target, first["sample"]), "rb") as f:
            f.read(1)
        took.append(time.monotonic() - began)
        plugin.unpublish("first", "pod")
        plugin.unstage("first")
    return took


def main():
    with open(sys.argv[2], encoding="ascii") as f:
        first = json.load(f)
    plugin, uris = Plugin("p"), list(small_sets())
    try:
        figures = {"parallel": parallel(plugin, uris)}
        began = time.monotonic()
        for _ in range(CYCLES):
            one_cycle(plugin, uris[0])
        figures |= {"cycle": (time.monotonic() - began) / CYCLES, "left": left(plugin)}
        if first:
            figures["first"] = first_byte(plugin, first)
        print(json.dumps(figures))
    finally:
        plugin.stop()


main()
