"""Files of events between others' programs and ours: curves-of-others.py DIR SAMPAN-TRAIN

tensorboardX and VisualDL write runs and the onnx package a model, which `sampan-train ui` must show; sampan.LogWriter writes
one, which TensorBoard's and VisualDL's readers must read.
"""
import glob
import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
FOLDER, TRAIN = sys.argv[1:]
STEPS = 30
np.int, np.float = int, float  # VisualDL 2.5.3 asks for them, and numpy has them no longer
rng = np.random.default_rng(1)


def others_write():
    import onnx
    from onnx import TensorProto, helper
    from tensorboardX import SummaryWriter
    from visualdl import LogWriter
    picture = (rng.random((16, 12, 3)) * 255).astype("uint8")
    labels, scores = rng.integers(2, size=500), rng.random(500)
    with SummaryWriter(f"{FOLDER}/tensorboardx") as w:
        for i in range(STEPS):
            w.add_scalar("train/loss", 1 / (i + 1), i)
            w.add_histogram("weights", rng.normal(size=1000), i)
        w.add_image("input", picture, 7, dataformats="HWC")
        w.add_pr_curve("judged", labels, scores, 9)
    with LogWriter(f"{FOLDER}/visualdl") as w:
        for i in range(STEPS):
            w.add_scalar("train/loss", 1 / (i + 1), i)
            w.add_histogram("weights", rng.normal(size=1000), i)
        w.add_image("input", picture, 7)
        w.add_pr_curve("judged", labels, scores, 9)
    nodes = [helper.make_node("Conv", ["x", "k"], ["y"], name="first"), helper.make_node("Relu", ["y"], ["z"])]
    weights = helper.make_tensor("k", TensorProto.FLOAT, [4, 3, 3, 3], [0.0] * 108)
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, None)] for name in "xz"]
    os.makedirs(f"{FOLDER}/model")
    onnx.save(helper.make_model(helper.make_graph(nodes, "net", *ends, [weights])), f"{FOLDER}/model/net.onnx")


def the_page_shows():
    ui = subprocess.Popen([TRAIN, "ui", "--log_dir", FOLDER, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
    try:
        port = re.search(r"ready port=(\d+)", ui.stderr.readline())[1]

        def ask(path, **of):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}?{urllib.parse.urlencode(of)}") as answer:
                return answer.read() if path == "image" else json.load(answer)

        assert [(r["run"], r["damaged"], r["graph"]) for r in ask("runs")["runs"]] == [
            ("model", None, True), ("tensorboardx", None, False), ("visualdl", None, False)], ask("runs")
        for run in ("tensorboardx", "visualdl"):
            points = ask("scalars", run=run)["train/loss"]
            assert [p[0] for p in points] == list(range(STEPS)) and all(abs(p[2] - 1 / (p[0] + 1)) < 1e-6 for p in points), points
            bars = ask("histograms", run=run, tag="weights")
            assert len(bars) >= 12 and all(sum(b["counts"]) == 1000 and -6 < b["edges"][0] < b["edges"][-1] < 6 for b in bars), bars
            curve, = ask("pr", run=run, tag="judged")
            recall = curve["recall"]
            assert curve["step"] == 9 and len(recall) >= 10 and recall[0] == 1 and recall == sorted(recall)[::-1], curve
            assert abs(curve["precision"][0] - 0.5) < 0.1, curve
            (step, _, place), = ask("images", run=run, tag="input")
            assert step == 7 and ask("image", run=run, tag="input", place=place)[:4] == b"\x89PNG"
        assert ask("graph", run="model")["nodes"] == [["first", "Conv", ["x", "k"], ["y"]], ["", "Relu", ["y"], ["z"]]]
    finally:
        ui.kill()
        ui.wait()


def others_read():
    import sampan
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from visualdl import LogReader
    folder = f"{FOLDER}/ours"
    with sampan.LogWriter(folder) as log:
        for i in range(STEPS):
            log.add_scalar("train/loss", 1 / (i + 1), i)
            log.add_histogram("weights", rng.normal(size=1000), i)
        log.add_image("input", rng.random((16, 12)), 7)
    want = [(i, np.float32(1 / (i + 1))) for i in range(STEPS)]
    a = EventAccumulator(folder, size_guidance={"scalars": 0, "histograms": 0, "images": 0})
    a.Reload()
    assert [(e.step, np.float32(e.value)) for e in a.Scalars("train/loss")] == want
    assert [h.histogram_value.num for h in a.Histograms("weights")] == [1000] * STEPS
    image, = a.Images("input")
    assert (image.step, image.height, image.width) == (7, 16, 12)
    r = LogReader(file_path=glob.glob(f"{folder}/vdlrecords*")[0])
    assert [(d.id, np.float32(d.value)) for d in r.get_data("scalar", "train/loss")] == want
    assert len(r.get_data("histogram", "weights")) == STEPS and len(r.get_data("image", "input")) == 1


others_write()
the_page_shows()
others_read()
