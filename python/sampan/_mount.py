"""Requests to a mounted set: ioctls on its root folder (docs/formats/ioctl.md)."""
from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import struct
from typing import Any, Dict, SupportsIndex, Union

from ._arguments import c_text

STATUS, SET_EPOCH, SET_SAMPLER = 0xBFFCB501, 0x4008B502, 0x4400B503
STATUS_BYTES, SPEC_BYTES, SPEC_MOST = 16380, 1024, 951
Path = Union[str, "os.PathLike[str]"]


@contextlib.contextmanager
def _root(mount):
    fd = os.open(mount, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    except OSError as refused:
        if refused.errno != errno.ENOTTY:
            raise
        raise OSError(errno.ENOTTY, "not the root of a mounted set of samples", mount) from None
    finally:
        os.close(fd)


def set_epoch(mount: Path, epoch: SupportsIndex) -> None:
    """Epoch `epoch` of the set's sampler begins."""
    with _root(mount) as fd:
        fcntl.ioctl(fd, SET_EPOCH, struct.pack("=Q", epoch))


def set_sampler(mount: Path, spec: str) -> None:
    """The order to come; "" turns it off."""
    told = c_text("spec", spec)
    if len(told) > SPEC_MOST:
        raise ValueError(f"a SPEC of {len(told)} bytes: at most {SPEC_MOST}")
    with _root(mount) as fd:
        fcntl.ioctl(fd, SET_SAMPLER, told.ljust(SPEC_BYTES, b"\0"))


def status(mount: Path) -> Dict[str, Any]:
    """What `sampan status --json` prints, as a dict."""
    answer = bytearray(STATUS_BYTES)
    with _root(mount) as fd:
        try:
            fcntl.ioctl(fd, STATUS, answer)
        except OSError as refused:  # too long for an ioctl, perhaps
            try:
                with open(os.path.join(mount, ".sampan", "status.json"), encoding="utf-8") as text:
                    return json.load(text)
            except FileNotFoundError:
                raise refused from None
    length = struct.unpack_from("=I", answer)[0]
    return json.loads(answer[4:4 + length])
