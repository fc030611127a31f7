"""Sampan for training programs.

    import sampan
    batches = sampan.sampler("torch-distributed", dataset, ranks=8, rank=3, batch_size=64, mount="/mnt/set")
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=batches)     # or paddle.io.DataLoader

    for images, labels in sampan.Loader("/mnt/set", "torch-distributed,ranks=8,rank=3", batch_size=64): ...

`sampler` gives the indices that Paddle's or PyTorch's own sampler gives, to the bit, and tells the mounted
set which epoch begins, so that its samples are there before they are read. Nothing but the standard library
is needed for it; requests to the mount are ioctls on its root, so they work inside a container. `Loader` reads,
decodes and augments by itself (libsampan-loader) and gives numpy arrays; torch.from_dlpack(images) takes them
without a copy, paddle.utils.dlpack.from_dlpack(images.__dlpack__()) with one that Paddle 2.6 makes. `LogWriter` keeps
curves that TensorBoard, VisualDL and `sampan-train ui` show.
"""
from ._loader import Batch, Loader, LoaderError
from ._logs import LogWriter
from ._mount import set_epoch, set_sampler, status
from ._sampler import Sampler, sampler

__all__ = ["Batch", "Loader", "LoaderError", "LogWriter", "Sampler", "sampler", "set_epoch", "set_sampler", "status"]
__version__ = "0.1.0"
