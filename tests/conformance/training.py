"""What sampan-train learns beside PyTorch or Paddle: training.py torch|paddle SAMPAN_TRAIN WORK [CASE...]

The same pictures in the same order (sampan.Loader gives what the trainer's own loader does), the same first numbers (read from
a checkpoint, a file a parameter), STEPS steps on the CPU. Compared are the loss and the rate of every step and, at the end, every
parameter, running statistic and average. Each case prints how far they are apart.
"""
import json
import os
import subprocess
import sys

import numpy

import sampan

STEPS, PASSES, BATCH, SIDE, SEED, HIDDEN, CLASSES, PICTURES = 100, 13, 16, 32, 7, 32, 4, 128

# What is told to the trainer. `loss`: how far a step's loss may be off, of its own size; `numbers`: of each parameter how far it may
# be off, of its norm. Float has 7 digits. A deep net with batch normalisation doubles a difference every few steps, whoever makes it:
# its first `early` steps are held to `loss`, the mean of all losses to `mean`, and its parameters are compared after those steps.
LEARNS = dict(model="mlp", hidden=HIDDEN, learning_rate=0.005, momentum=0.9, weight_decay=1e-4, label_smoothing=0.0, ema=0.0,
              optimizer="momentum", schedule="constant", warmup_passes=0, rate_passes=30, rate_factor=0.1)
CASES = {
    "softmax": (dict(model="softmax", learning_rate=0.0002), dict(loss=1e-4, numbers=1e-4)),
    "mlp": (dict(), dict(loss=1e-4, numbers=1e-4)),
    "mlp-step": (dict(schedule="step", rate_passes=3, rate_factor=0.5, weight_decay=0.01, momentum=0.8), dict(loss=1e-4, numbers=1e-4)),
    "mlp-cosine": (dict(schedule="cosine", warmup_passes=2, label_smoothing=0.1, ema=0.95), dict(loss=1e-4, numbers=1e-4)),
    "mlp-lars": (dict(optimizer="lars", learning_rate=0.2, schedule="cosine", warmup_passes=2, weight_decay=1e-3), dict(loss=1e-4, numbers=1e-4)),
    "resnet18": (dict(model="resnet18", schedule="cosine", warmup_passes=2, label_smoothing=0.1, ema=0.95, learning_rate=0.02),
                 dict(loss=1e-4, numbers=1e-2, early=20, mean=0.02)),
}


def make_pictures(folder):
    """A folder a class: each has its own colours in its quarters, under noise."""
    from PIL import Image
    draw = numpy.random.default_rng(SEED)
    for label in range(CLASSES):
        look = numpy.kron(draw.uniform(60, 190, (2, 2, 3)), numpy.ones((20, 24, 1)))
        os.makedirs(os.path.join(folder, f"class-{label}"))
        for i in range(PICTURES // CLASSES):
            noisy = numpy.clip(look + draw.normal(0, 60, look.shape), 0, 255).astype(numpy.uint8)
            Image.fromarray(noisy).save(os.path.join(folder, f"class-{label}", f"{i:03}.jpg"))


def options(learns):
    return [word for name, value in learns.items() for word in ("--" + name, str(value))]


def trained(train, pictures, save, learns, steps, *more):
    """Losses and rates by step, and the folder of the checkpoint."""
    command = [train, "--device", "cpu", "--data", pictures, "--image", SIDE, "--batch_size", BATCH, "--seed", SEED, "--num_passes", PASSES,
               "--max_steps", steps, "--log_period", 1, "--histogram_period", 0, "--log_level", "error", "--saving_period", 0,
               "--save_dir", save, "--log_dir", save + "-curves", *options(learns), *more]
    subprocess.run([str(word) for word in command], check=True)
    with open(save + "-curves/train.jsonl", encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    assert [line["step"] for line in lines] == list(range(1, steps + 1)), "train.jsonl lacks steps"
    (place,) = os.listdir(save)
    return [line["loss"] for line in lines], [line["learning_rate"] for line in lines], os.path.join(save, place)


def parameters(place):
    """By name, in the order of the layers: Paddle's header of 16 bytes, then floats."""
    with open(os.path.join(place, "state.json"), encoding="utf-8") as f:
        state = json.load(f)
    numbers = {}
    for row in state["files"]:
        if row["name"].startswith("___"):
            with open(os.path.join(place, row["name"]), "rb") as f:
                head = f.read(16)
                numbers[row["name"]] = numpy.frombuffer(f.read(), numpy.float32)
            assert int.from_bytes(head[8:], "little") == len(numbers[row["name"]]), row
    return numbers


def averages(place, numbers):
    """Those of `mean`: all parameters, each on a cache line of its own."""
    if not os.path.exists(os.path.join(place, "mean")):
        return {}
    flat, at, means = numpy.fromfile(os.path.join(place, "mean"), numpy.float32), 0, {}
    for name, value in numbers.items():
        means[name] = flat[at:at + len(value)]
        at += -(-len(value) // 16) * 16
    assert at == len(flat)
    return means


def batches(pictures, steps):
    """(pixels NHWC, labels) of each step, as sampan-train reads them."""
    loader = sampan.Loader(pictures, f"torch-distributed,seed={SEED},shuffle=true,ranks=1,rank=0,batch-size={BATCH}", batch_size=BATCH,
                           size=SIDE, seed=SEED, epochs=PASSES)
    made = 0
    for _ in range(PASSES):
        for images, labels in loader:
            if made == steps:
                return
            made += 1
            yield images.copy(), labels.astype(numpy.int64)


# Layers of the models by the trainer's names, in order: (our name, theirs).
def dense_layers(n):
    return [(f"___fc_layer_{i}__", f"{2 * i + 1}") for i in range(n)]


def resnet18_layers():
    convs, norms = ["conv1"], ["bn1"]
    for stage in range(1, 5):
        for block in range(2):
            if stage > 1 and block == 0:
                convs.append(f"layer{stage}.0.downsample.0")
                norms.append(f"layer{stage}.0.downsample.1")
            for i in 1, 2:
                convs.append(f"layer{stage}.{block}.conv{i}")
                norms.append(f"layer{stage}.{block}.bn{i}")
    return ([(f"___conv_{i}__", name) for i, name in enumerate(convs)] + [(f"___batch_norm_{i}__", name) for i, name in enumerate(norms)] +
            [("___fc_layer_0__", "fc")])


class Framework:
    """Puts our numbers into a model of theirs, and theirs into our layout."""

    linear_transposed = False
    statistics = ("running_mean", "running_var")  # that are compared

    def layers(self):
        return resnet18_layers() if self.learns["model"] == "resnet18" else dense_layers(1 if self.learns["model"] == "softmax" else 3)

    def pairs(self):
        """(our parameter, their tensor's name, the kind: dense, conv or plain)."""
        for ours, theirs in self.layers():
            if "conv" in ours:
                yield ours + ".w0", theirs + ".weight", "conv"
            elif "fc" in ours:
                yield ours + ".w0", theirs + ".weight", "dense"
                yield ours + ".wbias", theirs + ".bias", "plain"
            else:
                for suffix, name in zip(("w0", "wbias", "w1", "w2"), ("weight", "bias", *self.statistics)):
                    yield f"{ours}.{suffix}", f"{theirs}.{name}", "plain"

    def theirs(self, value, kind, shape):
        if kind == "conv":
            k, c, r, s = shape
            return value.reshape(k, r, s, c).transpose(0, 3, 1, 2)
        if kind == "dense" and self.linear_transposed:
            return value.reshape(shape[1], shape[0]).T
        return value.reshape(shape)

    def ours(self, value, kind):
        if kind == "conv":
            value = value.transpose(0, 2, 3, 1)
        if kind == "dense" and self.linear_transposed:
            value = value.T
        return numpy.array(value, order="C").reshape(-1)  # a copy: the model goes on

    def numbers(self, tensors):
        return {ours: self.ours(tensors[theirs], kind) for ours, theirs, kind in self.pairs()}


class Torch(Framework):
    linear_transposed = True

    def __init__(self, learns, first, steps_of_pass):
        import torch
        self.torch, self.learns = torch, learns
        torch.set_num_threads(1)
        self.model = self.build()
        state = {name: v for name, v in self.model.state_dict().items()}
        for ours, theirs, kind in self.pairs():
            if "running" not in theirs:
                state[theirs] = torch.from_numpy(self.theirs(first[ours], kind, tuple(state[theirs].shape)).copy())
        self.model.load_state_dict(state)
        decays = [p for p in self.model.parameters() if p.dim() > 1]
        plain = [p for p in self.model.parameters() if p.dim() <= 1]
        self.optimizer = torch.optim.SGD([{"params": decays, "weight_decay": learns["weight_decay"]}, {"params": plain, "weight_decay": 0}],
                                         lr=learns["learning_rate"], momentum=learns["momentum"])
        self.schedule = self.scheduler(steps_of_pass)
        self.loss = torch.nn.CrossEntropyLoss(label_smoothing=learns["label_smoothing"])
        self.average = None
        if learns["ema"]:
            from torch.optim import swa_utils
            self.average = swa_utils.AveragedModel(self.model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(learns["ema"]), use_buffers=True)
            self.average.update_parameters(self.model)  # the first time it copies

    def build(self):
        nn = self.torch.nn
        if self.learns["model"] == "resnet18":
            import torchvision
            return torchvision.models.resnet18(num_classes=CLASSES)
        inputs, h = SIDE * SIDE * 3, self.learns["hidden"]
        if self.learns["model"] == "softmax":
            return nn.Sequential(nn.Flatten(), nn.Linear(inputs, CLASSES))
        return nn.Sequential(nn.Flatten(), nn.Linear(inputs, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, CLASSES))

    def scheduler(self, steps_of_pass):
        rates, learns = self.torch.optim.lr_scheduler, self.learns
        if learns["schedule"] == "step":
            return rates.StepLR(self.optimizer, learns["rate_passes"] * steps_of_pass, learns["rate_factor"])
        if learns["schedule"] == "constant":
            return rates.ConstantLR(self.optimizer, 1, 0)
        warm = learns["warmup_passes"] * steps_of_pass
        rise = rates.LinearLR(self.optimizer, 1 / warm, 1, warm - 1)
        fall = rates.CosineAnnealingLR(self.optimizer, PASSES * steps_of_pass - warm)
        return rates.SequentialLR(self.optimizer, [rise, fall], [warm])

    def step(self, images, labels):
        x, y = self.torch.from_numpy(images), self.torch.from_numpy(labels)
        if self.learns["model"] == "resnet18":
            x = x.permute(0, 3, 1, 2)
        loss = self.loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        rate = self.optimizer.param_groups[0]["lr"]
        self.optimizer.step()
        self.schedule.step()
        if self.average:
            self.average.update_parameters(self.model)
        return loss.item(), rate

    def learned(self):
        return self.numbers({k: v.numpy() for k, v in self.model.state_dict().items()})

    def averaged(self):
        if not self.average:
            return {}
        return self.numbers({k.removeprefix("module."): v.numpy() for k, v in self.average.state_dict().items()})


class Paddle(Framework):
    statistics = ("_mean",)  # its running variance is the biased one of a batch, ours and PyTorch's is not

    def __init__(self, learns, first, steps_of_pass):
        import paddle
        self.paddle, self.learns = paddle, learns
        paddle.set_device("cpu")
        self.model = self.build()
        self.tensors = dict(self.model.state_dict())
        for ours, theirs, kind in self.pairs():
            if not theirs.endswith(self.statistics):
                t = self.tensors[theirs]
                t.set_value(self.theirs(first[ours], kind, tuple(t.shape)).copy())
        self.schedule = self.scheduler(steps_of_pass)
        decays = [p for p in self.model.parameters() if len(p.shape) > 1]
        plain = [p for p in self.model.parameters() if len(p.shape) <= 1]
        self.optimizers = [self.optimizer(parameters, decay) for parameters, decay in ((decays, learns["weight_decay"]), (plain, 0.0))]
        self.means = {k: v.numpy() for k, v in self.tensors.items()} if learns["ema"] else {}

    def build(self):
        nn = self.paddle.nn
        if self.learns["model"] == "resnet18":
            return self.paddle.vision.models.resnet18(num_classes=CLASSES)
        inputs, h = SIDE * SIDE * 3, self.learns["hidden"]
        if self.learns["model"] == "softmax":
            return nn.Sequential(nn.Flatten(), nn.Linear(inputs, CLASSES))
        return nn.Sequential(nn.Flatten(), nn.Linear(inputs, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, CLASSES))

    def scheduler(self, steps_of_pass):
        rates, learns, base = self.paddle.optimizer.lr, self.learns, self.learns["learning_rate"]
        if learns["schedule"] == "step":
            return rates.StepDecay(base, learns["rate_passes"] * steps_of_pass, learns["rate_factor"])
        if learns["schedule"] == "constant":
            return rates.LambdaDecay(base, lambda _: 1)
        warm = learns["warmup_passes"] * steps_of_pass
        fall = rates.CosineAnnealingDecay(base, PASSES * steps_of_pass - warm)
        return rates.LinearWarmup(fall, warm, base / warm, base + base / warm)

    def optimizer(self, parameters, decay):
        if self.learns["optimizer"] == "lars":  # without decay it is plain momentum, of steps
            from paddle.incubate.optimizer import LarsMomentumOptimizer
            return LarsMomentumOptimizer(self.schedule, self.learns["momentum"], lars_coeff=0.001, lars_weight_decay=decay, parameter_list=parameters)
        return self.paddle.optimizer.Momentum(self.schedule, self.learns["momentum"], parameters, weight_decay=decay)

    def step(self, images, labels):
        x, y = self.paddle.to_tensor(images), self.paddle.to_tensor(labels)
        if self.learns["model"] == "resnet18":
            x = x.transpose([0, 3, 1, 2])
        spread = self.learns["label_smoothing"]
        if spread:
            y = self.paddle.nn.functional.label_smooth(self.paddle.nn.functional.one_hot(y, CLASSES), epsilon=spread)
        loss = self.paddle.nn.functional.cross_entropy(self.model(x), y, soft_label=bool(spread))
        loss.backward()
        rate = self.schedule.get_lr()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.clear_grad()
        self.schedule.step()
        keep = numpy.float32(self.learns["ema"])
        for name, mean in self.means.items():  # Paddle has no such average: its model's numbers, averaged here
            self.means[name] = keep * mean + (1 - keep) * self.tensors[name].numpy()
        return float(loss), rate

    def learned(self):
        return self.numbers({k: v.numpy() for k, v in self.tensors.items()})

    def averaged(self):
        return self.numbers(self.means) if self.means else {}


def apart(ours, theirs):
    """The largest difference of a parameter, of its norm, and whose it is."""
    worst, whose = 0.0, ""
    for name, value in theirs.items():
        far = float(numpy.linalg.norm(ours[name] - value) / max(numpy.linalg.norm(value), 1e-3))
        if far > worst:
            worst, whose = far, name
    return worst, whose


def compare(framework, train, pictures, work, name):
    changes, bounds = CASES[name]
    learns = {**LEARNS, **changes}
    save = os.path.join(work, name)
    # The first numbers are a function of the seed and a parameter's name: a step without learning shows them.
    still = {**learns, "learning_rate": 0, "ema": 0.0}
    first = parameters(trained(train, pictures, save + "-first", still, 1)[2])
    early = bounds.get("early", STEPS)
    losses, rates, place = trained(train, pictures, save, learns, STEPS)
    if early < STEPS:
        place = trained(train, pictures, save + "-early", learns, early)[2]
    model = framework(learns, first, PICTURES // BATCH)
    got, learned, averaged = [], None, None
    for images, labels in batches(pictures, STEPS):
        got.append(model.step(images, labels))
        if len(got) == early:
            learned, averaged = model.learned(), model.averaged()
    assert len(got) == STEPS, len(got)
    off = [abs(a - b) / abs(b) for a, (b, _) in zip(losses, got)]
    rate_off = max(abs(a - b) / max(abs(b), 1e-9) for a, (_, b) in zip(rates, got))
    ours = parameters(place)
    far, whose = apart(ours, learned)
    means = averages(place, ours)
    mean_far, mean_whose = apart(means, averaged)
    mean_off = abs(sum(losses) - sum(b for b, _ in got)) / sum(b for b, _ in got)
    print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}; off at most {max(off[:early]):.1e} in {early} steps, {max(off):.1e} in {STEPS}, "
          f"the mean of all {mean_off:.1e}; parameters after {early}: {far:.1e} ({whose})"
          + (f", averages {mean_far:.1e}" if means else ""), flush=True)
    assert bool(means) == bool(averaged), "averages"
    assert rate_off < 1e-6, f"{name}: rates differ by {rate_off:.1e}"
    assert max(off[:early]) <= bounds["loss"], f"{name}: losses differ by {max(off[:early]):.1e} at step {off.index(max(off[:early])) + 1}"
    assert mean_off <= bounds.get("mean", bounds["loss"]), f"{name}: mean losses differ by {mean_off:.1e}"
    assert far <= bounds["numbers"], f"{name}: {whose} differs by {far:.1e}"
    assert mean_far <= bounds["numbers"], f"{name}: the average of {mean_whose} differs by {mean_far:.1e}"
    assert losses[-1] < losses[0], f"{name}: nothing is learned"


def main():
    which, train, work, *names = sys.argv[1:]
    pictures = os.path.join(work, "pictures")
    make_pictures(pictures)
    framework = {"torch": Torch, "paddle": Paddle}[which]
    for name in names or CASES:
        if name == "mlp-lars" and which == "torch":
            continue  # PyTorch has none of its own
        compare(framework, train, pictures, work, name)


main()
