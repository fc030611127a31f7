#!/usr/bin/env bash
# The catalog of a version comes to a node: it is used before it is on the disk, and is made durable then; killed in the
# middle the call is made again; what a power cut left of it, here and in the cache, is fetched anew.
. "$SAMPAN_TESTS/lib/common.sh"
. "$SAMPAN_TESTS/lib/csi.sh"
make_set --classes 2 --files 10
mkdir "$T/catalogs"
version=$(sampan scan "file://$SRC" -o "$T/new" --json --quiet | field version)
mv "$T/new" "$T/catalogs/$version"
export VERSION=$version
csi_python <<'PY'
p = plugin()
version = os.environ["VERSION"]
attributes = {"uri": "file://" + src, "version": version, "catalogs": f"file://{T}/catalogs/"}
here = f"{p.state}/versions/{version}"
def in_cache():
    return [f for f in files(f"{p.root}/cache") if f.endswith(f"/{version}.catalog")][0]
def settled():
    return not [f for f in files(p.root) if f.endswith(".early")]
def same():
    return subprocess.run(["diff", "-r", src, p.publish("v", "pod")], capture_output=True).returncode == 0
def free():
    "a child that the killed plugin was about to start has its lock until it is another program"
    return subprocess.run(["flock", "-n", p.state, "true"]).returncode == 0
def end():
    p.unpublish("v", "pod"); p.unstage("v")

# Cut off at any moment: half of it never has its name, and the same call ends well.
for i in range(12):
    call = p.begin("NodeStageVolume", **p.stage_fields("v", **attributes))
    time.sleep(0.01 * i)
    p.kill()
    if os.path.exists(here):
        expect(f"bytes after kill {i}", open(here, "rb").read(), open(f"{T}/catalogs/{version}", "rb").read())
    until(free)
    p.start()
    p.stage("v", **attributes)
    expect(f"content after kill {i}", same(), True)
    end()
expect("left of them", files(f"{p.state}/versions"), [])

p.stage("v", **attributes)
until(settled)
expect("content", same(), True)
end()

# As a power cut leaves it: names are there, their bytes are not. (In the boot that the mark names, they would be.)
def cut(path):
    size = os.path.getsize(f"{T}/catalogs/{version}")
    for name, data in ((path + ".early", b"00000000-0000-0000-0000-000000000000"), (path, bytes(size))):
        if os.path.exists(name):
            os.chmod(name, 0o644)
            os.unlink(name) # not through another link
        with open(name, "wb") as f:
            f.write(data)
kept = in_cache()
cut(here)
cut(kept)
refused = subprocess.run([SAMPAN, "mount", f"file://{src}", f"{T}/mnt", "--cache-dir", f"{T}/cache", "--catalog", here], capture_output=True, text=True)
expect("a mount by what is left", (refused.returncode != 0, "before the catalog was on the disk" in refused.stderr), (True, True))
p.stage("v", **attributes)
expect("content after a power cut", same(), True)
for path in (here, in_cache()):
    expect(path, open(path, "rb").read(), open(f"{T}/catalogs/{version}", "rb").read())
until(settled)
end()
PY
nothing_of_csi
