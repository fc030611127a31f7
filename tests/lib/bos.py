#!/usr/bin/env python3
"""Looks into a bucket of BOS with Baidu's own client (run with the venv's python): tests/lib/s3.py for that store.

    bos.py keys BUCKET | cat BUCKET KEY | head BUCKET KEY (its metadata) | get BUCKET DIR
    bos.py put-bytes BUCKET KEY (stdin) | delete BUCKET KEY | uploads BUCKET | begin BUCKET KEY (an upload in parts, left there)

Endpoint and keys: BOS_URL, BCE_ACCESS_KEY_ID, BCE_SECRET_ACCESS_KEY.
"""
import os
import sys

from baidubce.auth.bce_credentials import BceCredentials
from baidubce.bce_client_configuration import BceClientConfiguration
from baidubce.services.bos.bos_client import BosClient


def client():
    keys = BceCredentials(os.environ["BCE_ACCESS_KEY_ID"], os.environ["BCE_SECRET_ACCESS_KEY"])
    return BosClient(BceClientConfiguration(credentials=keys, endpoint=os.environ["BOS_URL"], path_style_enable=True))


def main():
    verb, bucket, *rest = sys.argv[1:]
    bos = client()
    if verb == "keys":
        for item in bos.list_all_objects(bucket):
            print(item.key)
    elif verb == "cat":
        sys.stdout.buffer.write(bos.get_object_as_string(bucket, rest[0]))
    elif verb == "head":
        told = bos.get_object_meta_data(bucket, rest[0]).metadata
        for name, value in sorted(vars(told).items()):
            if name.startswith("bce_meta_"):
                print(name[len("bce_meta_"):], value)
    elif verb == "get":
        for item in bos.list_all_objects(bucket):
            path = os.path.join(rest[0], item.key)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if not path.endswith("/"):  # the mark of a folder
                bos.get_object_to_file(bucket, item.key, path)
    elif verb == "put-bytes":
        bos.put_object_from_string(bucket, rest[0], sys.stdin.buffer.read())
    elif verb == "delete":
        bos.delete_object(bucket, rest[0])
    elif verb == "uploads":
        for upload in bos.list_all_multipart_uploads(bucket):
            print(upload.key)
    elif verb == "begin":
        bos.initiate_multipart_upload(bucket, rest[0])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
