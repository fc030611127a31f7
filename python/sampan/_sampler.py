"""The orders of common/order as iterables."""
from __future__ import annotations

import array
import ctypes
import functools
import os
from typing import Any, Dict, Iterator, Optional, Sized, SupportsIndex, Tuple, Union

from . import _mount
from ._arguments import c_text, whole

PIECE = 1 << 16  # numbers fetched from the library at a time
TOKEN_BYTES = 1600
LIMIT = 6  # of enum err_class


class _Err(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("sys", ctypes.c_int), ("msg", ctypes.c_char * 1000)]

    def raised(self):
        text = self.msg.decode("utf-8", "replace")
        return MemoryError(text) if self.kind == LIMIT and "memory" in text else ValueError(text)


@functools.lru_cache(None)
def _library():
    lib = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libsampan-order.so"))
    err = ctypes.POINTER(_Err)
    for name, result, *arguments in (
            ("open", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, err),
            ("resume", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32, err),
            ("length", ctypes.c_uint64, ctypes.c_void_p),
            ("fill", None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p),
            ("token", ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p, err),
            ("close", None, ctypes.c_void_p)):
        function = getattr(lib, "sampan_order_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


class _Order:
    """One epoch of one rank."""

    def __init__(self, spec=None, samples=0, token=None, ranks=1, rank=0):
        if not 0 <= samples < 1 << 64:  # ctypes would cut off what does not fit
            raise ValueError(f"{samples} samples: want a number of 0 or more")
        if not 0 <= rank < ranks < 1 << 32:
            raise ValueError(f"rank {rank} of {ranks}: ranks are counted from 0")
        self._made_of = spec, samples, token, ranks, rank
        err = _Err()
        if token is None:
            self._handle = _library().sampan_order_open(c_text("sampler", spec), samples, ctypes.byref(err))
        else:
            self._handle = _library().sampan_order_resume(c_text("token", token), ranks, rank, ctypes.byref(err))
        if not self._handle:
            raise err.raised()
        self.length = _library().sampan_order_length(self._handle)

    def __del__(self):
        if getattr(self, "_handle", None):
            _library().sampan_order_close(self._handle)

    def __reduce__(self):
        """A copy, here or in another process, has memory of its own in the library."""
        return _Order, self._made_of

    def numbers(self, first=0):
        while first < self.length:
            n = min(PIECE, self.length - first)
            piece = array.array("q", bytes(8 * n))
            _library().sampan_order_fill(self._handle, first, n, piece.buffer_info()[0])
            yield from piece
            first += n

    def token(self, position):
        if not 0 <= position < 1 << 64:  # ctypes would cut off what does not fit
            raise ValueError(f"{position} samples taken: want a number of 0 or more")
        err, text = _Err(), ctypes.create_string_buffer(TOKEN_BYTES)
        if _library().sampan_order_token(self._handle, position, text, ctypes.byref(err)):
            raise err.raised()
        return text.value.decode()


def _of_token(token):
    """Samples and name of the sampler (docs/formats/order.md)."""
    _, samples, _, spec, *_ = token.split(":")
    return samples, spec.split(",")[0]


def _value(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


class Sampler:
    """Iterating gives one epoch: indices, or with `batch_size` lists of them, for `sampler=` and
    `batch_sampler=` of a DataLoader. As with Paddle's samplers the epoch moves on by one when its first
    batch is taken; `set_epoch` says which one comes next."""

    def __init__(self, name: str, data: Union[Sized, SupportsIndex], *, mount: Optional[_mount.Path] = None,
                 batch_size: Optional[SupportsIndex] = None, epoch: SupportsIndex = 0, **keys: Any) -> None:
        self.samples = len(data) if isinstance(data, Sized) else whole("data", data)
        self.mount, self.epoch = mount, whole("epoch", epoch)
        self.batch_size = None if batch_size is None else whole("batch_size", batch_size)
        if batch_size is not None:
            keys["batch_size"] = self.batch_size
        self._keys = keys
        self._spec = ",".join([name, *(f"{k.replace('_', '-')}={_value(v)}" for k, v in keys.items())])
        self._resumed: Optional[Tuple[_Order, int]] = None  # (order, epoch) of a loaded state, until it has been iterated
        self._current, self._taken = None, 0
        self._order = _Order(self.spec(), self.samples)
        self._order_epoch = self.epoch
        self._kind = _of_token(self._order.token(0))
        if mount is not None:
            _mount.set_sampler(mount, self._node_spec())

    def spec(self, epoch: Optional[int] = None) -> str:
        return f"{self._spec},epoch={self.epoch if epoch is None else epoch}"

    def _node_spec(self):
        """The same text from all ranks of a node: its first rank."""
        rank, each = self._keys.get("rank"), self._keys.get("ranks_per_node", 1)
        if rank is None:
            return self.spec()
        return self.spec().replace(f",rank={rank}", f",rank={rank // each * each}", 1)

    def _take_order(self):
        if self._resumed:
            return self._resumed[0]
        if self._order is None or self._order_epoch != self.epoch:
            self._order = None  # two epochs at most in memory
            self._order, self._order_epoch = _Order(self.spec(), self.samples), self.epoch
        return self._order

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """The next pass is over this epoch; over its rest, where a state of it was loaded."""
        self.epoch = whole("epoch", epoch)
        self._current, self._taken = None, 0
        if self._resumed and self._resumed[1] != self.epoch:
            self._resumed = None

    def __len__(self) -> int:
        n = self._take_order().length
        return n if self.batch_size is None else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        order = self._take_order()
        if self.mount is not None:
            _mount.set_epoch(self.mount, self.epoch)
        return self._indices(order) if self.batch_size is None else self._batches(order)

    def _begin(self, order):
        self._current, self._taken = order, 0
        self._resumed = None
        self.epoch += 1

    def _indices(self, order):
        self._begin(order)
        for number in order.numbers():
            self._taken += 1
            yield number

    def _batches(self, order):
        self._begin(order)
        batch = []
        for number in order.numbers():
            batch.append(number)
            if len(batch) == self.batch_size:
                self._taken += len(batch)
                yield batch
                batch = []
        if batch:
            self._taken += len(batch)
            yield batch

    def state_dict(self, taken: Optional[SupportsIndex] = None) -> Dict[str, Any]:
        """What a checkpoint keeps. `taken`: samples this rank has read since the pass under way began, which goes on
        with an epoch or begins it (a DataLoader with workers takes batches ahead of training); without it, those
        that were taken here."""
        taken = self._taken if taken is None else whole("taken", taken)
        if self._current is None:
            return {"token": self._take_order().token(0), "epoch": self.epoch}
        return {"token": self._current.token(taken), "epoch": self.epoch - 1}

    def load_state_dict(self, state: Dict[str, Any], ranks: Optional[SupportsIndex] = None,
                        rank: Optional[SupportsIndex] = None) -> None:
        """Goes on from there. With another number of ranks the rest of the epoch is dealt anew: each sample
        once, but for repeats (fewer than ranks, so that all have as many) and what drop_last leaves out."""
        ranks = whole("ranks", self._keys.get("ranks", 1) if ranks is None else ranks)
        rank = whole("rank", self._keys.get("rank", 0) if rank is None else rank)
        token, epoch = (state.get("token"), state.get("epoch")) if isinstance(state, dict) else (None, None)
        if not isinstance(token, str) or not isinstance(epoch, int):
            raise ValueError(f"{state!r}: want what state_dict() gave")
        order = _Order(token=token, ranks=ranks, rank=rank)
        if _of_token(token) != self._kind:
            theirs, here = (f"{name}, {samples} samples" for samples, name in (_of_token(token), self._kind))
            raise ValueError(f"resume token: of {theirs}; here: {here}")
        self._resumed, self._current, self._taken, self.epoch = (order, epoch), None, 0, epoch


def sampler(name: str, data: Union[Sized, SupportsIndex], **options: Any) -> Sampler:
    """sampler("paddle-distributed", dataset, ranks=4, rank=0, batch_size=64, shuffle=True, mount=None, …)

    `name` and further options are those of a SPEC (`sampan help plan`), with _ for -; `data` is a dataset or
    its length."""
    return Sampler(name, data, **options)
