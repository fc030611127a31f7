"""Arguments as C takes them: what ctypes would cut off is refused."""
import operator
import os
from typing import Any, SupportsIndex, Union


def c_text(name: str, value: Union[str, bytes, "os.PathLike[Any]"]) -> bytes:
    """What C reads up to the first NUL."""
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise ValueError(f"{name}={value!r}: a NUL byte is in it")
    return encoded


def whole(name: str, value: SupportsIndex) -> int:
    """A number of Python or numpy."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}: want a whole number") from None
