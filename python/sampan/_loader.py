"""libsampan-loader by ctypes: batches of decoded pictures as numpy arrays."""
from __future__ import annotations

import ctypes
import os
import threading
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional, Sequence, SupportsFloat, SupportsIndex, Tuple, Union

from ._arguments import c_text, whole

if TYPE_CHECKING:  # neither is needed before there are batches
    import numpy
    from numpy.typing import NDArray
    from typing import Literal

Path = Union[str, bytes, "os.PathLike[Any]"]
FORMATS = {"float": 0, "uint8": 1, "raw": 2}
CROPS = {"random": 0, "centre": 1, "center": 1, "none": 2}
POLICIES = {"fail": 0, "skip": 1}
DIRECT = {"auto": 0, "off": 1, "only": 2}
TOKEN_BYTES = 1600
LATE = 2
WAIT_NS, REST_NS = 200_000_000, 2_000_000_000  # for a batch, until signals are heard; for reads in hand, at the end
NOT_FOUND, CORRUPT, DENIED, USAGE = 1, 3, 5, 7  # of enum err_class
_NAME = "libsampan-loader.so.0"


class LoaderError(RuntimeError):
    """A sample that cannot be read or decoded; its path is in the text."""


def _sides(size):
    """Height and width: of one number both."""
    if not hasattr(size, "__len__"):
        return size, size
    if len(size) != 2 or isinstance(size, (str, bytes)):
        raise ValueError(f"size={size!r}: want one number, or (height, width)")
    return tuple(size)


def _colours(name, value):
    try:
        numbers = [float(v) for v in value]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != 3 or not all(abs(v) < 1e30 for v in numbers):
        raise ValueError(f"{name}={value!r}: want three numbers, of red, green and blue")
    return (ctypes.c_float * 3)(*numbers)


def _token(state):
    """Of a state, or its text itself."""
    token = state.get("token") if isinstance(state, dict) else state
    if not token or not isinstance(token, str):
        raise ValueError(f"{state!r}: want what state_dict() gave")
    return token


class _Err(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("sys", ctypes.c_int), ("msg", ctypes.c_char * 1000)]

    def raised(self):
        text = self.msg.decode("utf-8", "replace")
        return {USAGE: ValueError, NOT_FOUND: FileNotFoundError, DENIED: PermissionError}.get(self.kind, LoaderError)(text)


class _Allocator(ctypes.Structure):
    _fields_ = [("alloc", ctypes.c_void_p), ("free", ctypes.c_void_p), ("arg", ctypes.c_void_p)]


class _Options(ctypes.Structure):
    _fields_ = [
        ("dir", ctypes.c_char_p), ("list", ctypes.c_char_p), ("sampler", ctypes.c_char_p), ("resume", ctypes.c_char_p),
        ("batch", ctypes.c_uint32), ("drop_last", ctypes.c_bool), ("epochs", ctypes.c_uint32),
        ("threads", ctypes.c_uint32), ("depth", ctypes.c_uint32), ("format", ctypes.c_int), ("crop", ctypes.c_int),
        ("height", ctypes.c_uint32), ("width", ctypes.c_uint32), ("resize", ctypes.c_uint32),
        ("mean", ctypes.c_float * 3), ("std", ctypes.c_float * 3), ("no_flip", ctypes.c_bool), ("seed", ctypes.c_uint64),
        ("policy", ctypes.c_int), ("max_pixels", ctypes.c_uint64), ("max_bytes", ctypes.c_uint64),
        ("direct", ctypes.c_int), ("verify_always", ctypes.c_bool), ("quiet_mount", ctypes.c_bool), ("memory", _Allocator)]


class _Batch(ctypes.Structure):
    _fields_ = [
        ("n", ctypes.c_uint32), ("h", ctypes.c_uint32), ("w", ctypes.c_uint32), ("c", ctypes.c_uint32),
        ("format", ctypes.c_int), ("pixels", ctypes.c_void_p), ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("sizes", ctypes.POINTER(ctypes.c_uint64)), ("labels", ctypes.POINTER(ctypes.c_int32)),
        ("numbers", ctypes.POINTER(ctypes.c_uint64)), ("epoch", ctypes.c_uint64), ("step", ctypes.c_uint64),
        ("position", ctypes.c_uint64), ("skipped", ctypes.c_uint32), ("slot", ctypes.c_uint32)]


class _Info(ctypes.Structure):
    _fields_ = [
        ("samples", ctypes.c_uint64), ("epoch_samples", ctypes.c_uint64), ("epoch_batches", ctypes.c_uint64),
        ("epoch", ctypes.c_uint64), ("left_batches", ctypes.c_uint64), ("classes", ctypes.c_uint32),
        ("empty_classes", ctypes.c_uint32), ("ranks", ctypes.c_uint32), ("rank", ctypes.c_uint32),
        ("threads", ctypes.c_uint32), ("depth", ctypes.c_uint32), ("batch", ctypes.c_uint32), ("batch_bytes", ctypes.c_size_t)]


class _Figures(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("batches", "samples", "skipped", "waited_ns", "elapsed_ns")),
        ("stall", ctypes.c_double),
        *((name, ctypes.c_uint64) for name in (
            "first_ns", "read_ns", "decode_ns", "idle_ns", "direct_samples", "direct_bytes", "mount_samples",
            "mount_bytes", "direct_known", "corrupt", "revoked")),
        ("direct_why", ctypes.c_char * 256), ("mount_why", ctypes.c_char * 256)]


class _Skip(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint64), ("why", ctypes.c_char * 480)]


_library = None


def _load():
    """The library beside this file, or the one the system knows, or $SAMPAN_LOADER_LIBRARY."""
    global _library
    if _library is not None:
        return _library
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), _NAME)
    path = os.environ.get("SAMPAN_LOADER_LIBRARY") or (beside if os.path.exists(beside) else _NAME)
    try:
        lib = ctypes.CDLL(path)
    except OSError as why:
        what = ("another package has brought an older JPEG library of the same name: import sampan before it, say before torchvision"
                if "symbol" in str(why) and "jpeg" in str(why) else
                'it comes by "make install", or by "make && pip install python/"; or name it in SAMPAN_LOADER_LIBRARY')
        raise ImportError(f"sampan.Loader: {why} ({what})") from why
    err, handle = ctypes.POINTER(_Err), ctypes.c_void_p
    batch = ctypes.POINTER(_Batch)
    for name, result, *arguments in (
            ("options_init", None, ctypes.POINTER(_Options)),
            ("open", ctypes.c_int, ctypes.POINTER(handle), ctypes.POINTER(_Options), err),
            ("close", None, handle),
            ("next_within", ctypes.c_int, handle, ctypes.c_uint64, ctypes.POINTER(batch), err),
            ("release", None, handle, batch),
            ("rest", ctypes.c_bool, handle, ctypes.c_uint64),
            ("set_epoch_within", ctypes.c_int, handle, ctypes.c_uint64, ctypes.c_uint64, err),
            ("token", ctypes.c_int, handle, ctypes.c_char_p, err),
            ("info", None, handle, ctypes.POINTER(_Info)),
            ("figures", None, handle, ctypes.POINTER(_Figures)),
            ("skips", ctypes.c_uint32, handle, ctypes.POINTER(_Skip), ctypes.c_uint32),
            ("class", ctypes.c_char_p, handle, ctypes.c_uint32),
            ("path", ctypes.c_char_p, handle, ctypes.c_uint64),
            ("layout", ctypes.c_uint32, ctypes.c_uint32)):
        function = getattr(lib, "loader_" + name)
        function.restype, function.argtypes = result, arguments
    for which, struct in enumerate((_Options, _Batch, _Info, _Figures, _Skip)):
        if lib.loader_layout(which) != ctypes.sizeof(struct):
            raise ImportError(f"sampan.Loader: {path} is of another version than this module")
    _library = lib
    return lib


class _Handle:
    """The loader in C: it ends when nobody needs it or an array of it any more.

    Of its `depth` batches at most depth - 1 are held by arrays while nobody is in his turn, so that whoever takes the
    next one, on any thread, finds one that is filled or being filled: the last one is copied within the turn."""

    def __init__(self, lib, options):
        self.lib, self.pointer, self.held, self.depth = lib, ctypes.c_void_p(), 0, options.depth
        self.process = os.getpid()
        self.turn = threading.RLock()  # one thread at a time takes batches
        self.counting = threading.RLock()  # arrays end on any thread, in the middle of a turn too
        self.epochs = 0  # that were read to their end
        self.interrupted = False  # Ctrl-C, where no exception may leave from: told with the next batch
        err = _Err()
        if lib.loader_open(ctypes.byref(self.pointer), ctypes.byref(options), ctypes.byref(err)):
            raise err.raised()

    def is_here(self):
        """Not so in a process forked off: there are no threads, and locks may be held for ever."""
        return self.process == os.getpid()

    def _patiently(self, function, *arguments):
        """One that waits for threads that read, in pieces, between which signals are heard."""
        err, rc = _Err(), LATE
        with self.turn:
            while rc == LATE:
                rc = function(self.pointer, *arguments, ctypes.byref(err))
        if rc < 0:
            raise err.raised()
        return rc

    def take(self, epochs):
        """The next batch, or None at the epoch's end: to all who began before it, also on other threads."""
        with self.turn:
            if self.interrupted:
                self.interrupted = False
                raise KeyboardInterrupt
            if self.epochs != epochs:
                return None
            held = _Held(self)
            if self._patiently(self.lib.loader_next_within, WAIT_NS, ctypes.byref(held.batch)):
                batch = _taken(held, copied=self.held >= self.depth)
                del held  # what was copied is given back before the turn ends
                return batch
            self.epochs += 1
            return None

    def count(self, more):
        with self.counting:
            self.held += more

    def set_epoch(self, epoch):
        self._patiently(self.lib.loader_set_epoch_within, epoch, WAIT_NS)

    def __del__(self):
        # A thread that a read never comes back to is left alone with its memory: whoever ends does not wait for it.
        if getattr(self, "pointer", None) and self.is_here() and self.lib.loader_rest(self.pointer, REST_NS):
            self.lib.loader_close(self.pointer)


class _Held:
    """A batch's memory: goes back to the loader with the last array that looks at it."""

    def __init__(self, handle):
        self.handle, self.batch = handle, ctypes.POINTER(_Batch)()
        handle.count(1)

    def __del__(self):
        if self.handle.is_here():
            try:
                self.handle.lib.loader_release(self.handle.pointer, self.batch)
            except KeyboardInterrupt:  # it came back; what leaves from here Python ignores
                self.handle.interrupted = True
            self.handle.count(-1)

    def view(self, address, shape, kind):
        import numpy
        return numpy.asarray(_Window(self, {"version": 3, "data": (address, False), "shape": shape, "typestr": kind}))


class _Window:
    """What numpy looks at, and keeps as long as it does."""

    __slots__ = ("held", "__array_interface__")

    def __init__(self, held, interface):
        self.held, self.__array_interface__ = held, interface


class Batch:
    """`images, labels = batch` or batch[0] and batch[1]; and numbers, epoch, step. For DLPack it is its images."""

    __slots__ = ("images", "labels", "numbers", "epoch", "step", "skipped")

    images: Any  # an array (samples, height, width, 3); of format="raw" a list of arrays
    labels: NDArray[numpy.int32]
    numbers: NDArray[numpy.uint64]
    epoch: int
    step: int
    skipped: int

    def __init__(self, images: Any, labels: NDArray[numpy.int32], numbers: NDArray[numpy.uint64], of: _Batch) -> None:
        self.images, self.labels, self.numbers = images, labels, numbers
        self.epoch, self.step, self.skipped = of.epoch, of.step, of.skipped

    def __iter__(self) -> Iterator[Any]:
        return iter((self.images, self.labels))

    def __getitem__(self, which: int) -> Any:
        return (self.images, self.labels)[which]

    def __len__(self) -> int:
        """Its samples."""
        return len(self.labels)

    def __dlpack__(self, *args: Any, **keys: Any) -> Any:
        return self.images.__dlpack__(*args, **keys)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self.images.__dlpack_device__()


def _taken(held, copied):
    import numpy
    b = held.batch.contents
    labels = numpy.ctypeslib.as_array(b.labels, (b.n,)).copy() if b.n else numpy.empty(0, numpy.int32)
    numbers = numpy.ctypeslib.as_array(b.numbers, (b.n,)).copy() if b.n else numpy.empty(0, numpy.uint64)
    if b.format == FORMATS["raw"]:
        images = [held.view(b.data[i], (b.sizes[i],), "|u1") if b.sizes[i] else numpy.empty(0, numpy.uint8)
                  for i in range(b.n)]
    else:
        kind = "<f4" if b.format == FORMATS["float"] else "|u1"
        images = held.view(b.pixels, (b.n, b.h, b.w, b.c), kind)
    if copied:
        images = [i.copy() for i in images] if isinstance(images, list) else images.copy()
    return Batch(images, labels, numbers, b)


class Loader:
    """Batches of a mounted set (or any folder of class folders) in the exact order of a sampler.

        loader = sampan.Loader("/mnt/set", "torch-distributed,ranks=8,rank=3", batch_size=64, size=224)
        for epoch in range(90):
            loader.set_epoch(epoch)
            for images, labels in loader:    # float32 NHWC, int32; views of the loader's memory
                step(torch.from_dlpack(images), torch.from_dlpack(labels).long())

    An array may be kept: its batch's memory is filled anew only when no array looks at it any more. If so
    many are kept that the loader would run dry, further ones are copies.

        sampler       a SPEC (`sampan help plan`); with ranks= it says which rank= this is
        batch_size    samples of a batch (0: the sampler's, else 32); drop_last leaves out one that is not full
        size          height and width of what comes out, or (height, width)
        format        "float": (value / 255 - mean) / std; "uint8": as decoded; "raw": the files' bytes, a list of arrays
        mean, std     of red, green and blue in 0 to 1 (ImageNet's; a std of 0 is 1)
        crop          "random": 8 to 100 % of the area, 3:4 to 4:3, and flip every other one; "centre": the shorter
                      side to `resize` (0: 256 / 224 of the larger of size), then the middle; "none": all of it
        threads       that read and decode (0: one a core); depth: batches in memory
        epochs        so many, and no iteration has a batch after them (0: no such end)
        seed          of the crops and flips; that of the order is the sampler's
        policy        "fail" or "skip": what becomes of pictures that cannot be decoded (loader.skips())
        direct        "auto", "off" or "only": bytes straight from the cache's packs
        samples       a file of lines "PATH", or all of them "PATH LABEL", below the folder
        max_pixels, max_bytes    what is larger is refused (0: 64 Mi pixels, 64 MiB)
        tell_mount    the mount hears of the sampler and of each epoch
        resume        what state_dict() gave, as load_state_dict() takes it, or its token

    ValueError: an option is wrong; FileNotFoundError, PermissionError, LoaderError: a sample, with its path."""

    def __init__(self, folder: Path, sampler: str = "sequence", *, batch_size: SupportsIndex = 0,
                 size: Union[SupportsIndex, Sequence[SupportsIndex]] = 224,
                 format: Literal["float", "uint8", "raw"] = "float",
                 crop: Literal["random", "centre", "center", "none"] = "random", resize: SupportsIndex = 0,
                 threads: SupportsIndex = 0, depth: SupportsIndex = 4, seed: SupportsIndex = 0, epochs: SupportsIndex = 0,
                 drop_last: bool = False, flip: bool = True, mean: Optional[Iterable[SupportsFloat]] = None,
                 std: Optional[Iterable[SupportsFloat]] = None, policy: Literal["fail", "skip"] = "fail",
                 direct: Literal["auto", "off", "only"] = "auto", samples: Optional[Path] = None,
                 max_pixels: SupportsIndex = 0, max_bytes: SupportsIndex = 0, tell_mount: bool = True,
                 resume: Union[Dict[str, Any], str, None] = None) -> None:
        height, width = _sides(size)
        self._lib = _load()
        self._handle: Optional[_Handle] = None
        o = self._options = _Options()
        self._lib.loader_options_init(ctypes.byref(o))
        o.dir, o.sampler = c_text("folder", folder), c_text("sampler", sampler)
        o.list = None if samples is None else c_text("samples", samples)
        o.drop_last, o.no_flip, o.quiet_mount = drop_last, not flip, not tell_mount
        for name, field, value in (
                ("batch_size", "batch", batch_size), ("epochs", "epochs", epochs), ("threads", "threads", threads),
                ("depth", "depth", depth), ("size", "height", height), ("size", "width", width), ("resize", "resize", resize),
                ("seed", "seed", seed), ("max_pixels", "max_pixels", max_pixels), ("max_bytes", "max_bytes", max_bytes)):
            value = whole(name, value)
            setattr(o, field, value)
            if getattr(o, field) != value:  # ctypes cuts off what does not fit
                raise ValueError(f"{name}={value}: want 0 to {2 ** (8 * getattr(_Options, field).size) - 1}")
        for name, known, value in (("format", FORMATS, format), ("crop", CROPS, crop), ("policy", POLICIES, policy),
                                   ("direct", DIRECT, direct)):
            if not isinstance(value, str) or value not in known:
                raise ValueError(f'{name}="{value}": unknown (known: {", ".join(known)})')
            setattr(o, name, known[value])
        for name, value in (("mean", mean), ("std", std)):
            if value is not None:
                setattr(o, name, _colours(name, value))
        self._open(resume)

    def _open(self, resume):
        self._options.resume = None if resume is None else c_text("resume", _token(resume))
        self._handle = _Handle(self._lib, self._options)  # the one before stays if there is none

    def _here(self):
        if self._handle is None:
            raise ValueError("the loader is closed")
        if not self._handle.is_here():
            raise RuntimeError(f"a loader is of the process that made it ({self._handle.process}): make one in each, "
                               "in the workers of a DataLoader too (it has threads of its own and needs none)")
        return self._handle

    def _pointer(self):
        return self._here().pointer

    def __reduce__(self):
        raise TypeError("a loader cannot be pickled, it has threads: make one in each process (state_dict() can be)")

    def info(self) -> Dict[str, int]:
        """What was found: samples, classes, batches of an epoch, …"""
        info = _Info()
        self._lib.loader_info(self._pointer(), ctypes.byref(info))
        return {name: getattr(info, name) for name, *_ in _Info._fields_}

    def figures(self) -> Dict[str, Any]:
        """Counters: waiting, reading and decoding times, bytes by source, what was skipped."""
        figures = _Figures()
        self._lib.loader_figures(self._pointer(), ctypes.byref(figures))
        values = {name: getattr(figures, name) for name, *_ in _Figures._fields_}
        return {n: v.decode("utf-8", "replace") if isinstance(v, bytes) else v for n, v in values.items()}

    def skips(self) -> List[Tuple[int, str]]:
        """The last samples that were left out, of batches to come too: (number, path and reason), newest first."""
        skips = (_Skip * 16)()
        n = self._lib.loader_skips(self._pointer(), skips, 16)
        return [(s.number, s.why.decode("utf-8", "replace")) for s in skips[:n]]

    @property
    def classes(self) -> List[Optional[str]]:
        names = (self._lib.loader_class(self._pointer(), i) for i in range(self.info()["classes"]))
        return [None if name is None else os.fsdecode(name) for name in names]

    def path(self, number: SupportsIndex) -> str:
        """Of a sample, below the folder."""
        which, handle = whole("number", number), self._pointer()
        path = self._lib.loader_path(handle, which) if 0 <= which < 1 << 64 else None  # ctypes cuts off what does not fit
        if path is None:
            raise IndexError(f"no sample {which}")
        return os.fsdecode(path)

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return self.info()["epoch_batches"]

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """The next batch is the first of this epoch. The rest of one that was gone on with stays, as loops have it, as
        long as none of it was taken; of one that had been read to its end that is an iteration without a batch."""
        which = whole("epoch", epoch)
        if not 0 <= which < 1 << 64:
            raise ValueError(f"epoch {which}: want a number of 0 or more")
        self._here().set_epoch(which)

    def __iter__(self) -> Iterator[Batch]:
        """To the end of the epoch; the next iteration is the next epoch, or goes on where one was left before the end
        (set_epoch() begins anew). Threads may share the batches of one."""
        return _Batches(self, self._here())

    def _next(self, handle, epochs):
        if self._handle is not handle:  # another one, or None: loaded, closed
            return None
        return self._here().take(epochs)

    def state_dict(self) -> Dict[str, str]:
        """The place after the batch that was given last, or where an epoch that was set since begins."""
        err, text = _Err(), ctypes.create_string_buffer(TOKEN_BYTES)
        if self._lib.loader_token(self._pointer(), text, ctypes.byref(err)):
            raise err.raised()
        return {"token": text.value.decode()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on from there, with as many ranks as this loader's sampler says: the rest of the epoch in the order of
        then, the epochs after it in that of now."""
        if not isinstance(state, dict):
            raise ValueError(f"{state!r}: want what state_dict() gave")
        self._open(state)

    def close(self) -> None:
        self._handle = None

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()


class _Batches:
    """Of one epoch. Threads may share it too; that its end is asked for by several is fine."""

    __slots__ = ("loader", "handle", "epochs")

    def __init__(self, loader, handle):
        self.loader, self.handle, self.epochs = loader, handle, handle.epochs

    def __iter__(self):
        return self

    def __next__(self):
        batch = self.loader._next(self.handle, self.epochs)
        if batch is None:
            raise StopIteration
        return batch


try:
    _load()  # at once: of two JPEG libraries of one name the first is everybody's, and torchvision's is too old for it
except ImportError:
    pass  # Loader() will say why; samplers need no library
