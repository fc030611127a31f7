"""Rows of mounts that can be written, each beside another client of the same server in the same run.

The server is tests/servers/s3mem.py: an S3 in memory that judges no signature. It costs the same for all.
"""
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

SAMPAN = os.environ.get("SAMPAN", "build/bin/sampan")
SERVER = Path(__file__).parent.parent / "servers/s3mem.py"


def start_server(bench):
    server = subprocess.Popen([sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    bench.world.processes.append(server)
    port = int(server.stdout.readline().split()[-1])
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", AWS_REGION="us-east-1",
                      AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
    bench.world.env.update(os.environ)
    return port


def outputs(bench, port, prefix, commit):
    from world import Mount  # pylint: disable=import-outside-toplevel
    return Mount(bench.world, f"minio://127.0.0.1:{port}/bench/{prefix}", bench.world.folder("stage"), "--writable",
                 "--commit", commit)


def aws():
    venv = Path(os.environ.get("VENV", ".venv")) / "bin/aws"
    found = str(venv) if venv.exists() else shutil.which("aws")
    if not found or subprocess.run([found, "--version"], capture_output=True, check=False).returncode:
        raise RuntimeError("no awscli here")
    return found


def write_big(bench):
    """One large file, written and closed, beside `aws s3 cp` of the same file."""
    size = (128 if bench.world.quick else 1024) << 20
    port, client = start_server(bench), aws()
    source = bench.world.folder("big") / "file"
    with open(source, "wb") as f:
        for _ in range(size >> 20):
            f.write(os.urandom(1 << 20))
    mount = outputs(bench, port, "sampan", "close")

    def through_mount(repeat):
        began = time.monotonic()
        shutil.copyfile(source, mount.where / f"big-{repeat}")
        seconds = time.monotonic() - began
        os.unlink(mount.where / f"big-{repeat}")
        return size / seconds

    def through_aws(repeat):
        target = f"s3://bench/aws/big-{repeat}"
        began = time.monotonic()
        subprocess.run([client, "s3", "cp", "--quiet", str(source), target], env=bench.world.env, check=True)
        seconds = time.monotonic() - began
        subprocess.run([client, "s3", "rm", "--quiet", target], env=bench.world.env, check=True)
        return size / seconds

    got = bench.alternate(sampan=through_mount, aws=through_aws)
    bench.line(f"write a file of {size >> 20} MiB and close it, against aws s3 cp",
               f"{got['sampan'] / 1e6:.0f} MB/s against {got['aws'] / 1e6:.0f}", got["sampan"] / got["aws"], 0.85)


def mount_s3fs(bench, port):
    if not shutil.which("s3fs"):
        raise RuntimeError("no s3fs here (apt-get install s3fs)")
    keys, where = bench.world.folder("keys") / "keys", bench.world.folder("s3fs")
    keys.write_text("bench:bench\n")
    keys.chmod(0o600)
    program = subprocess.Popen(["s3fs", "bench", str(where), "-f", "-o", f"url=http://127.0.0.1:{port},use_path_request_style,passwd_file={keys}"],
                               env=bench.world.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    bench.world.processes.append(program)
    for _ in range(300):
        if os.path.ismount(where):
            return where
        if program.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError("s3fs does not mount the bench's server")


def write_small(bench):
    """Many small files, one after another, created, written and closed, beside s3fs on the same server."""
    count, size = (500 if bench.world.quick else 10_000), 16 << 10
    port = start_server(bench)
    data = os.urandom(size)
    mounts = {commit: outputs(bench, port, commit, commit) for commit in ("close", "background")}
    folders = {"s3fs": mount_s3fs(bench, port), **{commit: mount.where for commit, mount in mounts.items()}}

    def files_in(folder, repeat):
        began = time.monotonic()
        for i in range(count):
            fd = os.open(folder / f"f{repeat}-{i}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            os.write(fd, data)
            os.close(fd)
        return count / (time.monotonic() - began)

    def through(name, folder):
        def measure(repeat):
            rate = files_in(folder, repeat)
            if name == "background":  # what is owed must not be paid in another's time
                began = time.monotonic()
                subprocess.run([SAMPAN, "flush", str(folder)], env=bench.world.env, check=True)
                bench.note(variant="background, until all is stored", repeat=repeat, value=count / (count / rate + time.monotonic() - began))
            return rate
        return measure

    got = bench.alternate(**{name: through(name, folder) for name, folder in folders.items()})
    for commit, owes in (("close", 3), ("background", 5)):
        bench.line(f"{count:,} files of 16 KB, --commit {commit}, against s3fs",
                   f"{got[commit]:,.0f} files/s against {got['s3fs']:,.0f}", got[commit] / got["s3fs"], owes)
    subprocess.run(["umount", str(folders["s3fs"])], check=False)


ROWS = {"write-big": write_big, "write-small": write_small}
