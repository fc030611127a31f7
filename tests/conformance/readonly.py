#!/usr/bin/env python3
"""The errors that POSIX asks of a read-only file system, as pjdfstest's *EROFS, ENOENT, ENOTDIR,
ENAMETOOLONG and EISDIR cases check them: readonly.py MOUNT."""
import errno
import os
import socket
import sys

root = sys.argv[1]
folder = os.path.join(root, sorted(e.name for e in os.scandir(root) if e.is_dir())[0])
file = os.path.join(folder, sorted(os.listdir(folder))[0])
new = os.path.join(folder, "new")
long_name = os.path.join(root, "x" * 256)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as s:
        here = os.getcwd()
        os.chdir(os.path.dirname(path))
        try:
            s.bind(os.path.basename(path))
        finally:
            os.chdir(here)


CASES = [
    ("open O_CREAT", lambda: os.open(new, os.O_CREAT | os.O_WRONLY), errno.EROFS),
    ("open O_WRONLY", lambda: os.open(file, os.O_WRONLY), errno.EROFS),
    ("open O_RDWR", lambda: os.open(file, os.O_RDWR), errno.EROFS),
    ("open O_TRUNC", lambda: os.open(file, os.O_RDONLY | os.O_TRUNC), errno.EROFS),
    ("mkdir", lambda: os.mkdir(new), errno.EROFS),
    ("mkdir on what is there", lambda: os.mkdir(folder), errno.EEXIST),
    ("mkfifo", lambda: os.mkfifo(new), errno.EROFS),
    ("bind", lambda: unix_socket(new), errno.EROFS),
    ("unlink", lambda: os.unlink(file), errno.EROFS),
    ("rmdir", lambda: os.rmdir(folder), errno.EROFS),
    ("rename", lambda: os.rename(file, new), errno.EROFS),
    ("link", lambda: os.link(file, new), errno.EROFS),
    ("symlink", lambda: os.symlink("x", new), errno.EROFS),
    ("chmod", lambda: os.chmod(file, 0o600), errno.EROFS),
    ("chown", lambda: os.chown(file, 1, 1), errno.EROFS),
    ("utimes", lambda: os.utime(file, (1, 1)), errno.EROFS),
    ("truncate", lambda: os.truncate(file, 0), errno.EROFS),
    ("open nothing", lambda: os.open(new, os.O_RDONLY), errno.ENOENT),
    ("stat below a file", lambda: os.stat(file + "/x"), errno.ENOTDIR),
    ("open a file as a folder", lambda: os.open(file, os.O_RDONLY | os.O_DIRECTORY), errno.ENOTDIR),
    ("read a folder", lambda: os.read(os.open(folder, os.O_RDONLY), 1), errno.EISDIR),
    ("name of 256 bytes", lambda: os.stat(long_name), errno.ENAMETOOLONG),
    ("readlink of a file", lambda: os.readlink(file), errno.EINVAL),
]

bad = 0
for name, call, want in CASES:
    try:
        call()
        got = 0
    except OSError as e:
        got = e.errno
    if got != want:
        bad += 1
        print(f"  {name}: got {errno.errorcode.get(got, got)}, want {errno.errorcode[want]}")
assert os.access(file, os.R_OK) and not os.access(file, os.W_OK)
sys.exit(bad != 0)
