#!/usr/bin/env bash
# The catalog of a version comes to a node: it is used before all of it is here; killed in the middle the call is made
# again; what a power cut left of it in the cache is fetched anew; a copy that a plugin of before brought is used, or
# replaced; and where the catalog is nowhere, the call says so.
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
published = open(f"{T}/catalogs/{version}", "rb").read()
def in_cache():
    return [f for f in files(f"{p.root}/cache") if f.endswith(f"/{version}.catalog")]
def whole():
    return in_cache() and not [f for f in files(f"{p.root}/cache") if ".early" in f or ".part" in f]
def forget():
    subprocess.run(["rm", "-rf", f"{p.root}/cache"], check=True)
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
    for f in in_cache():
        expect(f"bytes after kill {i}", open(f, "rb").read(), published)
    until(free)
    p.start()
    p.stage("v", **attributes)
    expect(f"content after kill {i}", same(), True)
    end()
    if i % 2:
        forget()
expect("left of them", files(f"{p.state}/versions"), [])

p.stage("v", **attributes)
until(whole)
expect("content", same(), True)
end()
expect("bytes", open(in_cache()[0], "rb").read(), published)

# It is here: the folder of catalogs is not needed any more. On another node it is, and its absence is said.
os.rename(f"{T}/catalogs", f"{T}/away")
p.stage("v", **attributes)
expect("content without the store", same(), True)
end()
forget()
refused("NOT_FOUND", version, p.stage, "v", **attributes)
refused("NOT_FOUND", "catalogs", p.stage, "v", **{k: v for k, v in attributes.items() if k != "catalogs"})
os.rename(f"{T}/away", f"{T}/catalogs")
p.stage("v", **attributes)
until(whole)
end()

# As a power cut leaves it: names are there, their bytes are not. (In the boot that the mark names, they would be.)
def cut(path):
    for name, data in ((path + ".early", b"00000000-0000-0000-0000-000000000000"), (path, bytes(len(published)))):
        if os.path.exists(name):
            os.chmod(name, 0o644)
            os.unlink(name) # not through another link
        with open(name, "wb") as f:
            f.write(data)
here = f"{p.state}/versions/{version}"
kept = in_cache()[0]
os.makedirs(os.path.dirname(here), exist_ok=True)
cut(here) # by a plugin of before
cut(kept)
refused_mount = subprocess.run([SAMPAN, "mount", f"file://{src}", f"{T}/mnt", "--cache-dir", f"{T}/cache", "--catalog", here], capture_output=True, text=True)
expect("a mount by what is left", (refused_mount.returncode != 0, "before the catalog was on the disk" in refused_mount.stderr), (True, True))
p.stage("v", **attributes)
expect("content after a power cut", same(), True)
until(whole)
expect(kept, open(kept, "rb").read(), published)
end()

# A whole copy of such a plugin's is as good as the store.
forget()
for name in (here, here + ".early"):
    if os.path.exists(name):
        os.unlink(name)
with open(here, "wb") as f:
    f.write(published)
os.rename(f"{T}/catalogs", f"{T}/away")
p.stage("v", **attributes)
expect("content by the copy", same(), True)
end()
PY
nothing_of_csi
