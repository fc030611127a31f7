#!/usr/bin/env python3
"""Prepares buckets with a client nobody here wrote (boto3; run with the venv's python).

    s3.py make BUCKET | put BUCKET DIR [PREFIX] | put-bytes BUCKET KEY... (stdin) | delete BUCKET KEY | keys BUCKET
    s3.py get BUCKET DIR | uploads BUCKET | begin BUCKET KEY (an upload in parts, left there)
    s3.py cat BUCKET KEY | head BUCKET KEY (its metadata)
    s3.py public BUCKET (anybody may read it)
    s3.py versioned BUCKET (keeps versions from now on) | replace BUCKET KEY TIMES | forget BUCKET KEY (all but its newest version)

Endpoint and credentials come from the usual AWS_ variables, an ACL such as public-read from S3_ACL. With S3_SUMS objects get
the sums that clients of today give them. `put` uploads a folder, eight at a time.
"""
import concurrent.futures
import json
import os
import sys

import boto3
from botocore.config import Config


SUMS = "when_supported" if "S3_SUMS" in os.environ else "when_required"
ACL = {"ACL": os.environ["S3_ACL"]} if "S3_ACL" in os.environ else {}


def client():
    config = Config(s3={"addressing_style": "path"}, max_pool_connections=8, retries={"max_attempts": 3},
                    request_checksum_calculation=SUMS, response_checksum_validation="when_required")
    return boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], config=config,
                        region_name=os.environ.get("AWS_REGION", "us-east-1"))


def put_folder(s3, bucket, folder, prefix=""):
    def put(path):
        key = prefix + os.path.relpath(path, folder)
        with open(path, "rb") as body:
            s3.put_object(Bucket=bucket, Key=key, Body=body.read(), **ACL)

    paths = []
    for at, _, names in os.walk(folder):
        for name in names:
            paths.append(os.path.join(at, name))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(put, paths))


def main():
    verb, bucket, *rest = sys.argv[1:]
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
    main()
