"""moto's S3 with IAM and signature checking on: a wrong key or signature is refused as AWS would.

    moto_iam.py --ready FILE [--port N]

Writes the endpoint, a good key and a session token to FILE (KEY=VALUE lines) once requests are checked.
Nothing but moto answers requests. This script starts it, makes the first user, and lets its check see
a request's target as it was sent: moto decodes it first and then refuses every right signature over a
key or prefix with an escaped character.
"""
import argparse
import itertools
import json
import os
import threading
import urllib.request

# Requests before this many are not checked: enough to make the user below, then it is set to 0.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "1000000"

import boto3  # noqa: E402
import moto.iam.models  # noqa: E402
from moto.iam.access_control import IAMRequestBase  # noqa: E402
from moto.server import DomainDispatcherApplication, create_backend_app  # noqa: E402
from werkzeug.serving import make_server  # noqa: E402

ALLOW_ALL = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}

# A secret is random base64. These hold, wherever a parser may take it for something else, what one in thousands
# does: a '/' first, last and after digits as a port has them, two of them, a '+' beside.
SECRETS = ["/80//+wJalrXUtnFEMI/K7MDENG/bPxRfiCY8+//", "8443/Kx7+1Gc/zr4TbYQ2f//nVa9+Lw0SdHe6Mu+"]

current = threading.local()


class RawTargets:
    """WSGI: remembers the target of the request that this thread serves."""

    def __init__(self, app):
        self.app = app

    def __call__(self, environ, start_response):
        current.target = environ.get("RAW_URI") or environ["REQUEST_URI"]
        return self.app(environ, start_response)


def check_the_raw_target():
    create = IAMRequestBase._create_aws_request

    def create_from_raw(self):
        self._path = current.target
        return create(self)

    IAMRequestBase._create_aws_request = create_from_raw


def make_hard_secrets():
    hard = itertools.cycle(SECRETS)
    moto.iam.models.random_alphanumeric = lambda length: next(hard)


def first_user(endpoint):
    start = {"endpoint_url": endpoint, "region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    iam = boto3.client("iam", **start)
    iam.create_user(UserName="tester")
    iam.put_user_policy(UserName="tester", PolicyName="all", PolicyDocument=json.dumps(ALLOW_ALL))
    key = iam.create_access_key(UserName="tester")["AccessKey"]
    # A role of one day gives credentials with a session token.
    trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]}
    iam.create_role(RoleName="reader", AssumeRolePolicyDocument=json.dumps(trust))
    iam.put_role_policy(RoleName="reader", PolicyName="all", PolicyDocument=json.dumps(ALLOW_ALL))
    sts = boto3.client("sts", **start)
    token = sts.assume_role(RoleArn="arn:aws:iam::123456789012:role/reader", RoleSessionName="tests")["Credentials"]
    return key, token


def check_from_now_on(endpoint):
    request = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", data=b"0", method="POST",
                                     headers={"Content-Type": "text/plain"})
    urllib.request.urlopen(request, timeout=300).read()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ready", required=True)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()

    check_the_raw_target()
    make_hard_secrets()
    app = RawTargets(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", options.port, app, threaded=True)
    endpoint = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    key, token = first_user(endpoint)
    check_from_now_on(endpoint)
    rows = {
        "MOTO_URL": endpoint,
        "MOTO_KEY": key["AccessKeyId"], "MOTO_SECRET": key["SecretAccessKey"],
        "MOTO_STS_KEY": token["AccessKeyId"], "MOTO_STS_SECRET": token["SecretAccessKey"],
        "MOTO_STS_TOKEN": token["SessionToken"],
    }
    with open(options.ready + ".part", "w", encoding="ascii") as out:
        out.writelines(f"{k}={v}\n" for k, v in rows.items())
    os.rename(options.ready + ".part", options.ready)
    threading.Event().wait()


if __name__ == "__main__":
    main()
