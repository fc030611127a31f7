"""Curves of a training in any framework: files of events as TensorBoard and VisualDL read them, and the lines that
`sampan-train ui` draws its first charts from."""
from __future__ import annotations

import errno
import json
import math
import os
import socket
import struct
import time
import zlib
from typing import Any, Dict, Optional, SupportsFloat, SupportsIndex

from ._arguments import whole
from ._loader import Loader
from ._mount import Path

BARS = 30
HUGE = 1e300  # beyond it a histogram's width is no number any more


def _crc_of_byte(n: int) -> int:
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    return n


_crc_table = [_crc_of_byte(n) for n in range(256)]


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _crc_table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _sum(data: bytes) -> bytes:
    crc = _crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


# --- protobuf ---


def _varint(n: int) -> bytes:
    out = bytearray()
    n &= (1 << 64) - 1
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _number(field: int, n: int) -> bytes:
    return _varint(field << 3) + _varint(n)


def _step(step: SupportsIndex) -> int:
    n = whole("step", step)
    if not -1 << 63 <= n < 1 << 63:  # _varint() would cut it off
        raise ValueError(f"step={n}: want a number of 64 bits")
    return n


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _double(field: int, x: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", x)


def _float(field: int, x: float) -> bytes:
    try:
        return _varint(field << 3 | 5) + struct.pack("<f", x)
    except OverflowError:
        return _float(field, math.copysign(math.inf, x))


# --- the two formats: a value of each kind in a record of each ---


class _TensorBoard:
    name = "events.out.tfevents.{seconds:010d}.{host}.{pid}.0"

    def head(self, now: float) -> bytes:
        return self.frame(_double(1, now) + _bytes(3, b"brain.Event:2"))

    def frame(self, event: bytes) -> bytes:
        length = struct.pack("<Q", len(event))
        return length + _sum(length) + event + _sum(event)

    def value(self, now: float, step: int, tag: bytes, kind: bytes) -> bytes:
        return self.frame(_double(1, now) + _number(2, step) + _bytes(5, _bytes(1, _bytes(1, tag) + kind)))

    def scalar(self, x: float) -> bytes:
        return _float(2, x)

    def histogram(self, values: Any, counts: Any, edges: Any) -> bytes:
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
        total, squares = float(values.sum()), float((values * values).sum())
        return _bytes(5, _double(1, low) + _double(2, high) + _double(3, values.size) + _double(4, total) + _double(5, squares)
                      + _bytes(6, edges[1:].tobytes()) + _bytes(7, counts.tobytes()))

    def image(self, png: bytes, height: int, width: int) -> bytes:
        return _bytes(4, _number(1, height) + _number(2, width) + _number(3, 3) + _bytes(4, png))


class _VisualDL:
    name = "vdlrecords.{seconds:010d}.log"

    def head(self, now: float) -> bytes:
        return self.value(now, 0, b"meta_data_tag", _bytes(10, b""))

    def value(self, now: float, step: int, tag: bytes, kind: bytes) -> bytes:
        record = _bytes(1, _number(1, step) + _bytes(2, tag) + _number(3, int(now * 1000)) + kind)
        return struct.pack("<Q", len(record)) + record

    def scalar(self, x: float) -> bytes:
        return _float(4, x)

    def histogram(self, values: Any, counts: Any, edges: Any) -> bytes:
        return _bytes(8, _bytes(1, counts.tobytes()) + _bytes(2, edges.tobytes()))

    def image(self, png: bytes, height: int, width: int) -> bytes:
        return _bytes(5, _bytes(4, png))


def _png(pixels: Any) -> bytes:
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)  # no filter

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class LogWriter:
    """Writes the curves of one run into a folder of its own.

        with sampan.LogWriter("curves/run-1") as log:
            log.add_step(step, loss=loss, accuracy=accuracy, loader=loader)
            log.add_scalar("test/loss", loss, step)
            log.add_histogram("first layer", weights, step)
            log.add_image("input", picture, step)

    Shown by `tensorboard --logdir curves`, `visualdl --logdir curves` and `sampan-train ui --log_dir curves` (the
    charts of add_step() and of a loader's figures: --log_dir curves/run-1). Each record is one write, so a killed
    program leaves whole ones. Histograms and images need numpy. Use one writer from one thread."""

    def __init__(self, folder: Path) -> None:
        now = time.time()
        names = {"seconds": int(now), "host": socket.gethostname(), "pid": os.getpid()}
        self.folder = os.fspath(folder)
        self._files: Dict[Any, int] = {}
        self._lines: Optional[int] = None
        self._before: Dict[str, Any] = {}
        os.makedirs(self.folder, exist_ok=True)
        try:
            for form in (_TensorBoard(), _VisualDL()):
                self._files[form] = self._open(form.name.format(**names))
                self._append(self._files[form], form.head(now))
        except OSError:
            self.close()
            raise

    def _open(self, name: str) -> int:
        return os.open(os.path.join(self.folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def _append(self, file: int, record: bytes) -> None:
        """All of it or nothing: readers of VisualDL's records fail at one that is cut."""
        end = os.lseek(file, 0, os.SEEK_END)
        try:
            if os.write(file, record) == len(record):
                return
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.folder)
        except OSError:
            os.ftruncate(file, end)
            raise

    def _open_files(self) -> Dict[Any, int]:
        if not self._files:
            raise ValueError("the writer is closed")
        return self._files

    def _add(self, tag: str, step: SupportsIndex, kind: str, *of: Any) -> None:
        files = self._open_files()
        if not tag or "%" in tag or "\0" in tag:
            raise ValueError(f"tag={tag!r}: want a name without % (VisualDL takes none)")
        at, now = _step(step), time.time()
        for form, file in files.items():
            self._append(file, form.value(now, at, tag.encode(), getattr(form, kind)(*of)))

    def add_scalar(self, tag: str, value: SupportsFloat, step: SupportsIndex) -> None:
        self._add(tag, step, "scalar", float(value))

    def add_histogram(self, tag: str, values: Any, step: SupportsIndex) -> None:
        """Of all numbers of an array; those that are not finite, or beyond 1e300, are left out."""
        import numpy

        flat = numpy.asarray(values, dtype=numpy.float64).ravel()
        flat = flat[numpy.abs(flat) <= HUGE]
        low, high = (flat.min(), flat.max()) if flat.size else (0.0, 0.0)
        if high - low <= BARS * 1e-14 * abs(low):  # one number, or nearly: bars are not narrower than numbers are apart
            high = low + BARS * 1e-6 * (abs(low) or 1)
        counts, edges = numpy.histogram(flat, bins=BARS, range=(low, high))
        with numpy.errstate(over="ignore"):  # in the sum of squares
            self._add(tag, step, "histogram", flat, counts.astype("<f8"), edges.astype("<f8"))

    def add_image(self, tag: str, image: Any, step: SupportsIndex) -> None:
        """Rows of pixels: height, width and, if there are any, 1 or 3 colours; of uint8, or of floats from 0 to 1."""
        import numpy

        pixels = numpy.asarray(image)
        if pixels.ndim == 2:
            pixels = pixels[:, :, None]
        if pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or 0 in pixels.shape:
            raise ValueError(f"image of shape {numpy.shape(image)}: want (height, width), (height, width, 1) or (height, width, 3)")
        if pixels.dtype.kind == "f":
            pixels = numpy.nan_to_num(pixels.clip(0, 1) * 255).round().astype(numpy.uint8)
        elif pixels.dtype != numpy.uint8:
            raise TypeError(f"image of {pixels.dtype}: want uint8, or floats from 0 to 1")
        pixels = numpy.ascontiguousarray(numpy.broadcast_to(pixels, (*pixels.shape[:2], 3)))
        self._add(tag, step, "image", _png(pixels), pixels.shape[0], pixels.shape[1])

    def add_step(self, step: SupportsIndex, *, loss: Optional[SupportsFloat] = None, accuracy: Optional[SupportsFloat] = None,
                 learning_rate: Optional[SupportsFloat] = None, epoch: SupportsIndex = 0, batch: SupportsIndex = 0,
                 loader: Optional[Loader] = None) -> None:
        """What stands at the head of `sampan-train ui`: how it learns, and what its input cost since the call before."""
        self._open_files()
        place = {"pass": whole("epoch", epoch), "batch": whole("batch", batch), "step": _step(step)}
        learned = {"loss": loss, "accuracy": accuracy, "learning_rate": learning_rate}
        line: Dict[str, Any] = {name: value if value is None else float(value) for name, value in learned.items()}
        if loader is not None:
            line.update(self._input(loader))
        for name, value in list(line.items()):
            if value is not None:
                line[name] = value if math.isfinite(value) else None
                self.add_scalar(f"{'train' if name in learned else 'input'}/{name}", value, step)
        if self._lines is None:
            self._lines = self._open("train.jsonl")
        text = json.dumps({"time": time.time(), **place, **line})
        self._append(self._lines, text.encode() + b"\n")

    def _input(self, loader: Loader) -> Dict[str, Any]:
        now, before = loader.figures(), self._before
        self._before = now
        waited, elapsed, samples = (now[k] - before.get(k, 0) for k in ("waited_ns", "elapsed_ns", "samples"))
        return {"samples_per_second": samples * 1e9 / elapsed if elapsed > 0 else None, "stall": waited / elapsed if elapsed > 0 else None,
                "read_seconds": now["read_ns"] / 1e9, "decode_seconds": now["decode_ns"] / 1e9,
                "from_packs": now["direct_samples"], "from_mount": now["mount_samples"]}

    def close(self) -> None:
        files, self._files = [*self._files.values(), self._lines], {}
        self._lines = None
        for file in files:
            if file is not None:
                os.close(file)

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()
