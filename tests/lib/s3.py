#!/usr/bin/env python3
"""Prepares buckets with a client nobody here wrote (boto3; run with the venv's python).

    s3.py make BUCKET | put BUCKET DIR [PREFIX] | put-bytes BUCKET KEY... (stdin) | delete BUCKET KEY | keys BUCKET
    s3.py get BUCKET DIR | uploads BUCKET | begin BUCKET KEY (an upload in parts, left there)
    s3.py cat BUCKET KEY | head BUCKET KEY (its metadata)
    s3.py public BUCKET (anybody may read it)
    s3.py --serve SOCKET (for tests/tools/s3.c: does the verbs in children, which find the libraries loaded)
    s3.py versioned BUCKET (keeps versions from now on) | replace BUCKET KEY TIMES | forget BUCKET KEY (all but its newest version)

Endpoint and credentials come from the usual AWS_ variables, an ACL such as public-read from S3_ACL. With S3_SUMS objects get
the sums that clients of today give them. `put` uploads a folder, eight at a time.
"""
import concurrent.futures
import json
import os
import signal
import socket
import sys
import traceback

import boto3
from botocore.config import Config


def client():
    sums = "when_supported" if "S3_SUMS" in os.environ else "when_required"
    config = Config(s3={"addressing_style": "path"}, max_pool_connections=8, retries={"max_attempts": 3},
                    request_checksum_calculation=sums, response_checksum_validation="when_required")
    return boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], config=config,
                        region_name=os.environ.get("AWS_REGION", "us-east-1"))


def put_folder(s3, bucket, folder, prefix=""):
    acl = {"ACL": os.environ["S3_ACL"]} if "S3_ACL" in os.environ else {}

    def put(path):
        key = prefix + os.path.relpath(path, folder)
        with open(path, "rb") as body:
            s3.put_object(Bucket=bucket, Key=key, Body=body.read(), **acl)

    paths = []
    for at, _, names in os.walk(folder):
        for name in names:
            paths.append(os.path.join(at, name))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(put, paths))


def answer(asked):
    """In a child: does what one client asks, as if its own command had been run."""
    code = 1
    try:
        _, files, _, _ = socket.recv_fds(asked, 1, 3)
        for n, file in enumerate(files):
            os.dup2(file, n)
        words = b"".join(iter(lambda: asked.recv(1 << 16), b"")).decode(errors="surrogateescape").split("\0")[:-1]
        os.chdir(words[0])
        count = int(words[1])
        os.environ.clear()
        os.environ.update(word.split("=", 1) for word in words[2 + count :])
        do(*words[2 : 2 + count])
        sys.stdout.flush()
        code = 0
    except SystemExit as e:
        print(e, file=sys.stderr)
    except Exception:
        traceback.print_exc()
    asked.sendall(bytes([code]))
    os._exit(0)


def serve(path):
    boto3.setup_default_session()
    boto3.client("s3", region_name="us-east-1", aws_access_key_id="-", aws_secret_access_key="-")  # loads what all need
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path + ".new")
        door.listen(64)
        os.rename(path + ".new", path)
        while True:
            asked, _ = door.accept()
            if os.fork() == 0:
                answer(asked)
            asked.close()


def do(verb, bucket, *rest):
    s3 = client()
    if verb == "make":
        s3.create_bucket(Bucket=bucket)
    elif verb == "put":
        put_folder(s3, bucket, *rest)
    elif verb == "put-bytes":
        body = sys.stdin.buffer.read()
        for key in rest:
            s3.put_object(Bucket=bucket, Key=key, Body=body)
    elif verb == "delete":
        s3.delete_object(Bucket=bucket, Key=rest[0])
    elif verb == "keys":
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for item in page.get("Contents", []):
                print(item["Key"])
    elif verb == "get":
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for item in page.get("Contents", []):
                path = os.path.join(rest[0], item["Key"])
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if not path.endswith("/"):  # the mark of a folder
                    s3.download_file(bucket, item["Key"], path)
    elif verb == "public":
        allow = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    elif verb == "versioned":
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    elif verb == "replace":
        for n in range(int(rest[1])):
            s3.put_object(Bucket=bucket, Key=rest[0], Body=b"%d" % n)
    elif verb == "forget":
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=rest[0]):
            for version in page.get("Versions", []):
                if version["Key"] == rest[0] and not version["IsLatest"]:
                    s3.delete_object(Bucket=bucket, Key=rest[0], VersionId=version["VersionId"])
    elif verb == "uploads":
        for upload in s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
            print(upload["Key"])
    elif verb == "cat":
        sys.stdout.buffer.write(s3.get_object(Bucket=bucket, Key=rest[0])["Body"].read())
    elif verb == "head":
        for name, value in sorted(s3.head_object(Bucket=bucket, Key=rest[0])["Metadata"].items()):
            print(name, value)
    elif verb == "begin":
        s3.create_multipart_upload(Bucket=bucket, Key=rest[0])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        do(*sys.argv[1:])
