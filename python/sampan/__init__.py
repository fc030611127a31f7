"""Sampan for training programs.

    import sampan
    batches = sampan.sampler("torch-distributed", dataset, ranks=8, rank=3, batch_size=64, mount="/mnt/set")
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=batches)     # or paddle.io.DataLoader

`sampler` gives the indices that Paddle's or PyTorch's own sampler gives, to the bit, and tells the mounted
set which epoch begins, so that its samples are there before they are read. Nothing but the standard library
is needed; requests to the mount are ioctls on its root, so they work inside a container.
"""
from ._mount import set_epoch, set_sampler, status
from ._sampler import Sampler, sampler

__all__ = ["Sampler", "sampler", "set_epoch", "set_sampler", "status"]
__version__ = "0.1.0"
