"""What sampan.Loader makes of pictures beside torchvision and Paddle (both read them by Pillow): pictures.py FOLDER

Of each kind, the middle of it (Resize, CenterCrop), and all of it (Resize to both sides), as bytes. They are the same but for rounding,
and, where a picture is made much smaller, for how: here the JPEG library does a part of it while it decodes. Prints how far they are apart.
"""
import os
import sys

import sampan  # first: see sampan.Loader
import numpy
from paddle.vision import transforms as of_paddle
from PIL import Image
from torchvision import transforms as of_torch
from torchvision.datasets.folder import default_loader

SIDE, SHORTER = 64, 73
MEAN, MOST = 0.5, 3  # of 255: how far the values of a picture may be off in the mean, and one of them


def photo(w, h):
    """Hills and valleys of colour, and some edges."""
    y, x = numpy.mgrid[0:1:h * 1j, 0:1:w * 1j]
    waves = [numpy.sin(2 * numpy.pi * (a * x + b * y) + c) for a, b, c in ((2, 1, 0), (1, 3, 1), (3, 2, 2))]
    pixels = numpy.stack(waves, -1) * 90 + 128 + 30 * ((x > 0.3) & (y > 0.6))[..., None]
    return Image.fromarray(numpy.clip(pixels, 0, 255).astype(numpy.uint8))


def make(top):
    """Kinds of JPEG and of PNG, a folder each; what a picture is called does not say what it is."""
    turned = Image.Exif()
    turned[0x0112] = 6
    kinds = {
        "rgb": (photo(90, 80), dict(quality=95, subsampling=0)),
        "halved-colours": (photo(91, 83), dict(quality=90, subsampling=2)),
        "progressive": (photo(120, 100), dict(quality=90, progressive=True)),
        "grey": (photo(100, 90).convert("L"), dict(quality=95)),
        "cmyk": (photo(100, 90).convert("CMYK"), dict(quality=95)),
        "turned-by-exif": (photo(100, 70), dict(quality=95, exif=turned)),
        "wide": (photo(400, 70), dict(quality=95)),
        "tall": (photo(70, 300), dict(quality=95)),
        "large": (photo(1500, 1100), dict(quality=90)),
        "one-pixel": (photo(1, 1), dict(quality=95)),
    }
    clear = photo(100, 70)
    clear.putalpha(photo(100, 70).convert("L"))
    pngs = {
        "png-rgb": (photo(90, 80), {}),
        "png-grey": (photo(90, 80).convert("L"), {}),
        "png-one-bit": (photo(90, 80).convert("1"), {}),
        "png-palette": (photo(90, 80).convert("P", palette=Image.Palette.ADAPTIVE, colors=13), {}),
        "png-palette-clear": (photo(90, 80).convert("P", palette=Image.Palette.ADAPTIVE, colors=99), dict(transparency=3)),
        "png-alpha": (clear, {}),
        "png-grey-alpha": (clear.convert("LA"), {}),
        "png-large": (photo(700, 500), {}),
    }
    for kind, named in (("JPEG", kinds), ("PNG", pngs)):
        for name, (picture, how) in named.items():
            os.makedirs(f"{top}/{name}")
            picture.save(f"{top}/{name}/picture.jpg", kind, **how)
    return sorted(kinds | pngs)


def apart(a, b):
    off = numpy.abs(a.astype(int) - b.astype(int))
    return off.mean(), off.max()


def main():
    top = sys.argv[1]
    names, wrong = make(top), []
    theirs = {
        "centre": [of_torch.Compose([of_torch.Resize(SHORTER), of_torch.CenterCrop(SIDE)]),
                   of_paddle.Compose([of_paddle.Resize(SHORTER), of_paddle.CenterCrop(SIDE)])],
        "none": [of_torch.Resize((SIDE, SIDE)), of_paddle.Resize((SIDE, SIDE))],
    }
    for crop, frameworks in theirs.items():
        with sampan.Loader(top, "sequence", batch_size=len(names), size=SIDE, resize=SHORTER, crop=crop, format="uint8", epochs=1) as loader:
            (batch,) = list(loader)
        for name, own, label in zip(names, batch.images, batch.labels):
            assert names[label] == name
            for framework, transform in zip(("torchvision", "Paddle"), frameworks):
                mean, most = apart(own, numpy.asarray(transform(default_loader(f"{top}/{name}/picture.jpg"))))
                print(f"{framework}, crop={crop}, {name}: {mean:.2f} in the mean, {most} at most")
                if mean > MEAN or most > MOST:
                    wrong.append(f"{framework}, crop={crop}, {name}")
    assert not wrong, "; ".join(wrong)


main()
