#!/usr/bin/env python3
"""What the frameworks make of a folder and of its mount: the same samples, and the same batches.

    loaders.py make DIR            class folders with small pictures
    loaders.py PyTorch|Paddle DIR MOUNT
"""
import os
import sys
import zlib

import numpy

WORKERS = 4
BATCH = 16


def make(top):
    from PIL import Image
    rng = numpy.random.default_rng(1)
    for c in range(4):
        os.makedirs(f"{top}/class {c}")
        for i in range(50):
            pixels = rng.integers(0, 255, (64, 64, 3), dtype=numpy.uint8)
            Image.fromarray(pixels).save(f"{top}/class {c}/{i:03}.{'jpg' if i % 2 else 'png'}")


def pytorch(folders):
    import torch
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    def batches(data, shuffle):
        order = torch.Generator()
        order.manual_seed(5)
        loader = torch.utils.data.DataLoader(data, BATCH, shuffle=shuffle, num_workers=WORKERS, generator=order)
        return [(zlib.crc32(x.numpy().tobytes()), y.tolist()) for x, y in loader]

    a, b = (ImageFolder(f, transforms.ToTensor()) for f in folders)
    for shuffle in (False, True):
        assert batches(a, shuffle) == batches(b, shuffle), f"batches, shuffle={shuffle}"
    return a.samples, b.samples


def paddle(folders):
    from paddle.io import DataLoader
    from paddle.vision.datasets import DatasetFolder

    def batches(data):
        loader = DataLoader(data, batch_size=BATCH, num_workers=WORKERS, use_shared_memory=False)
        return [(zlib.crc32(numpy.asarray(x).tobytes()), numpy.asarray(y).tolist()) for x, y in loader]

    a, b = (DatasetFolder(f, transform=lambda picture: numpy.asarray(picture, "float32")) for f in folders)
    assert batches(a) == batches(b), "batches"
    return a.samples, b.samples


def main():
    what, *folders = sys.argv[1:]
    if what == "make":
        return make(*folders)
    below = [[(path[len(top):], label) for path, label in samples]
             for top, samples in zip(folders, {"PyTorch": pytorch, "Paddle": paddle}[what](folders))]
    assert below[0] == below[1] and len(below[0]) == 200, "samples"


main()
