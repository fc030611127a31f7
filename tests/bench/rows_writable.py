"""Rows of mounts that can be written, each beside another client of the same server in the same run.

The server is tests/servers/s3mem.py: an S3 in memory that judges no signature. It costs the same for all.
"""
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

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


ROWS = {"write-big": write_big}
