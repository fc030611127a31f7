#!/usr/bin/env bash
# Keys come with the call: they reach the store, and stand in no argument, environment, log or record; wrong and missing ones are named as such.
. "$SAMPAN_TESTS/lib/common.sh"
use_s3
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 1 --files 10
s3_names
s3 put "$BUCKET" "$SRC" data/
export KEY=$AWS_ACCESS_KEY_ID SECRET=$AWS_SECRET_ACCESS_KEY URL=$AWS_ENDPOINT_URL
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_ENDPOINT_URL MOTO_KEY MOTO_SECRET
export AWS_EC2_METADATA_DISABLED=true HOME=$T
csi_python <<'PY'
key, secret = os.environ.pop("KEY"), os.environ.pop("SECRET")
p = plugin()
attributes = dict(uri=f"s3://{os.environ['BUCKET']}/data", endpoint=os.environ["URL"], region="us-east-1")
keys = {"access-key": key, "secret-key": secret}
def same(target):
    return subprocess.run(["diff", "-r", src, target], capture_output=True).returncode == 0
refused("UNAUTHENTICATED", "volume w: mount", p.stage, "w", secrets={"access-key": key, "secret-key": "wrong"}, **attributes)
refused("NOT_FOUND", "no-such-bucket-here", p.stage, "w", secrets=keys, **attributes | {"uri": "s3://no-such-bucket-here/x"})
p.stage("v", secrets=keys, **attributes)
expect("content", same(p.publish("v", "pod")), True)
# A PV that gives its keys to publish alone.
p.stage("late", **attributes)
refused("UNAUTHENTICATED", "credentials", p.publish, "late", "pod")
expect("content", same(p.publish("late", "pod", secrets=keys)), True)
p.publish("late", "pod", secrets=keys)
# Both show one set, and each has the other's keys.
expect("mounts", len([m for m in mounts() if "/state/mnt/" in m]), 1)
# Where the secret is: in one file, which root alone may read.
def holds(path):
    try:
        return secret.encode() in open(path, "rb").read()
    except OSError:
        return False
expect("calls are logged", os.path.getsize(T + "/log/csi") > 0, True)
found = [f for f in files(T) if holds(f)]
expect("files with the secret", [os.path.dirname(f) for f in found], [p.run])
expect("mode", oct(os.stat(found[0]).st_mode & 0o777), "0o400")
def of_process(d, name): # None: this process may not be looked at, not even by root
    try:
        return open(f"/proc/{d}/{name}", "rb").read()
    except OSError:
        return None
seen = 0
for d in filter(str.isdigit, os.listdir("/proc")):
    words, names = of_process(d, "cmdline"), of_process(d, "environ")
    if words and T.encode() in words and b"csi-test.py" not in words:
        seen += 1
        expect("the secret is in " + words.decode(), secret.encode() in words or secret.encode() in (names or b""), False)
expect("plugin, keeper and owner are looked at", seen >= 3, True)
# Renewed while mounted.
inode = os.stat(found[0]).st_ino
p.stage("v", secrets=keys | {"session-token": "fresh"}, **attributes)
expect("a new file", os.stat(found[0]).st_ino != inode and b"fresh" in open(found[0], "rb").read(), True)
# Whose Secret is another is not kept out by that mount, nor let into it.
p.stage("other", secrets=keys, **attributes)
expect("content", same(p.publish("other", "pod")), True)
expect("mounts", len([m for m in mounts() if "/state/mnt/" in m]), 2)
expect("the new keys stay", b"fresh" in open(found[0], "rb").read(), True)
# Nor are those whose `cache` names the folder that such a mount has, nor those with another profile: each has a cache of its own.
named = attributes | {"cache": f"ssd:{T}/named=1GiB"}
p.stage("named", secrets=keys, **named)
p.stage("named", secrets=keys | {"session-token": "fresh"}, **named)
p.stage("renewed", secrets=keys, **named)
p.stage("shards", secrets=keys, profile="shards", **named)
p.stage("unnamed", secrets=keys, profile="shards", **attributes)
more = ("named", "renewed", "shards", "unnamed")
for volume in more:
    expect(volume, same(p.publish(volume, "pod")), True)
told = subprocess.check_output([SAMPAN, "status", "--json"], text=True).splitlines()
caches = {t["dir"] for mount in map(json.loads, told) for t in mount["cache"]["tiers"]}
expect("folders of caches", len(caches), 6)
expect("the named one", f"{T}/named" in caches, True)
for volume in ("v", "late", "other", *more):
    p.unpublish(volume, "pod"); p.unstage(volume)
PY
nothing_of_csi
