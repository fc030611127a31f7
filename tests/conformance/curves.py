"""What the real readers of event files find in a folder of curves: curves.py tensorboard|visualdl DIR

The folder is that of a run of 1200 steps that was broken off at step 150 and went on from step 140. train.jsonl, which the
trainer writes by itself, says what there is to find.
"""
import glob
import json
import math
import os
import struct
import sys

STEPS, PERIOD = 1200, 5
NAMES = {"train/loss": "loss", "train/accuracy": "accuracy", "train/learning_rate": "learning_rate", "input/stall": "stall",
         "input/samples_per_second": "samples_per_second"}


def single(x):
    """As a float of four bytes keeps it."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def told(folder):
    """Scalars by step from train.jsonl, in which the last line of a step counts; and the test's, by pass."""
    steps, tests = {}, []
    with open(os.path.join(folder, "train.jsonl")) as f:
        for line in map(json.loads, f):
            if "loss" in line:
                steps[line["step"]] = line
            else:
                tests.append(line)
    return steps, tests


class TensorBoard:
    def __init__(self, folder):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        self.log = EventAccumulator(folder, size_guidance={"scalars": 0, "histograms": 0, "images": 0, "tensors": 0})
        self.log.Reload()
        self.tags = self.log.Tags()

    def scalars(self):
        return set(self.tags["scalars"])

    def points(self, tag):
        return [(e.step, e.value) for e in self.log.Scalars(tag)]

    def rest(self):
        weights = [t for t in self.tags["histograms"] if t.startswith("___fc_layer_")]
        assert len(weights) == 6, self.tags
        for tag in weights:
            assert [e.step for e in self.log.Histograms(tag)] == [400, 800, 1200], tag
            assert all(e.histogram_value.num > 0 and len(e.histogram_value.bucket) > 1 for e in self.log.Histograms(tag)), tag
        (picture,) = self.log.Images("input/first")
        assert (picture.width, picture.height) == (8, 8) and picture.encoded_image_string.startswith(b"\x89PNG"), picture
        assert "test/precision_recall" in self.tags["tensors"], self.tags
        costs = self.log.RunMetadata("step 3").step_stats.dev_stats
        assert [d.device for d in costs] == ["/device:CPU:0"], costs
        assert all(n.all_end_rel_micros > 0 and n.memory[0].total_bytes >= 0 for n in costs[0].node_stats), costs
        layers = {n.name for n in self.log.Graph().node}
        assert {n.node_name for n in costs[0].node_stats} == layers, costs
        assert layers >= {"__fc_layer_0__", "__fc_layer_1__", "__fc_layer_2__"}, layers


class VisualDL:
    def __init__(self, folder):
        from visualdl import LogReader
        (path,) = glob.glob(os.path.join(folder, "vdlrecords.*"))
        self.log = LogReader(file_path=path)
        self.tags = self.log.get_tags()

    def scalars(self):
        return set(self.tags["scalar"])

    def points(self, tag):
        return [(d.id, d.value) for d in self.log.get_data("scalar", tag)]

    def rest(self):
        weights = [t for t in self.tags["histogram"] if t.startswith("___fc_layer_")]
        assert len(weights) == 6, self.tags
        for tag in weights:
            assert [d.id for d in self.log.get_data("histogram", tag)] == [400, 800, 1200], tag
        (picture,) = self.log.get_data("image", "input/first")
        assert picture.image.encoded_image_string.startswith(b"\x89PNG"), picture
        assert [d.id for d in self.log.get_data("pr_curve", "test/precision_recall")] == [400, 800, 1200], self.tags


def main():
    reader = {"tensorboard": TensorBoard, "visualdl": VisualDL}[sys.argv[1]](sys.argv[2])
    steps, tests = told(sys.argv[2])
    assert list(steps) == list(range(PERIOD, STEPS + 1, PERIOD)), "train.jsonl lacks steps"
    assert reader.scalars() >= {*NAMES, "test/loss", "test/accuracy", "pass/loss", "input/from_mount"}, reader.scalars()
    for tag, field in NAMES.items():
        points = reader.points(tag)
        assert [s for s, _ in points] == list(steps), f"{tag}: other steps: {points[:5]} ... of {len(points)}"
        for step, value in points:
            want = steps[step][field]
            near = math.isclose(value, single(want), rel_tol=1e-6, abs_tol=5e-4 if field in ("stall", "samples_per_second") else 1e-7)
            assert near, (tag, step, value, want)
    for tag, field in ("test/loss", "test_loss"), ("test/accuracy", "test_accuracy"):
        points = reader.points(tag)
        assert [s for s, _ in points] == [400, 800, 1200] and len(tests) == 3, (points, tests)
        assert all(math.isclose(v, t[field], rel_tol=1e-6) for (_, v), t in zip(points, tests)), (points, tests)
    reader.rest()


main()
