"""Builds the wheel of the sampan module: its Python files, a shared library compiled from common/order, and
the loader's library where `make` has built it. Needs a C compiler and nothing from the network (a PEP 517 back
end without requirements)."""
import base64
import hashlib
import os
import subprocess
import sysconfig
import tarfile
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
NAME, VERSION = "sampan", "0.1.0"
LOADER = "libsampan-loader.so.0"
METADATA = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: The exact orders of Paddle's and PyTorch's samplers, and a mounted sample set's epoch
Requires-Python: >=3.8
"""


def c_folders():
    """An unpacked source distribution brings the C files along; in the tree they are next door."""
    carried = os.path.join(HERE, "csrc")
    top = carried if os.path.isdir(carried) else os.path.join(HERE, "..", "common")
    return os.path.join(top, "order"), os.path.join(top, "base")


def c_files():
    order, base = c_folders()
    names = sorted(n for n in os.listdir(order) if n.endswith((".c", ".h")))
    return [os.path.join(order, n) for n in names] + [
        os.path.join(base, n) for n in ("err.c", "err.h", "cleanup.h", "banned.h")]


def compile_library(target):
    order, base = c_folders()
    command = [*os.environ.get("CC", "cc").split(), "-std=gnu17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
               "-D_GNU_SOURCE", "-I", order, "-I", base, "-o", target, os.path.join(HERE, "sampan", "order-shim.c")]
    subprocess.run(command + [f for f in c_files() if f.endswith(".c")], check=True)


def loader_library():
    """What `make` has built next door; without it sampan.Loader looks for the system's."""
    path = os.path.join(HERE, "..", "build", "lib", LOADER)
    return path if os.path.exists(path) else None


def contents_of(path):
    with open(path, "rb") as source:
        return source.read()


def python_files():
    return sorted(n for n in os.listdir(os.path.join(HERE, "sampan")) if n.endswith((".py", ".typed")))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag = f"py3-none-{platform}"
    info = f"{NAME}-{VERSION}.dist-info"
    contents = {f"{info}/METADATA": METADATA.encode(),
                f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()}
    for name in python_files():
        contents[f"{NAME}/{name}"] = contents_of(os.path.join(HERE, "sampan", name))
    if loader_library():
        contents[f"{NAME}/{LOADER}"] = contents_of(loader_library())
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "libsampan-order.so")
        compile_library(library)
        contents[f"{NAME}/libsampan-order.so"] = contents_of(library)
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for path, data in contents.items())
    contents[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = f"{NAME}-{VERSION}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in contents.items():
            archive.writestr(path, data)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    top = f"{NAME}-{VERSION}"
    with tarfile.open(os.path.join(sdist_directory, f"{top}.tar.gz"), "w:gz") as archive:
        for name in ("pyproject.toml", "build_sampan.py"):
            archive.add(os.path.join(HERE, name), f"{top}/{name}")
        for name in [*python_files(), "order-shim.c"]:
            archive.add(os.path.join(HERE, "sampan", name), f"{top}/sampan/{name}")
        for path in c_files():
            folder = os.path.basename(os.path.dirname(path))
            archive.add(path, f"{top}/csrc/{folder}/{os.path.basename(path)}")
    return f"{top}.tar.gz"
