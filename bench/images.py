"""How fast images come in: an image of several layers and 500 MB, made with
buildah from what mmdebstrap made, against `skopeo copy` and `umoci unpack`."""

import os
import shutil
import subprocess
import tempfile
import time

import harness
from streams import in_turns

TIMES = 2
LEAST_BYTES = 500_000_000
TOOLS = ("buildah", "skopeo", "umoci")

# What is over the Debian of the first layer: copies, changes, removals.
LAYERS = (
    "cp -a usr opt/second; echo changed >etc/issue",
    "rm -rf usr/share/doc opt/second/share/doc; cp -a usr/bin opt/tools",
    "cp -a usr/lib opt/lib; rm -rf opt/tools; touch etc/last",
)


def run(*argv, **kw):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **kw).stdout.decode().strip()


def content_bytes(top):
    total = 0
    for where, _, files in os.walk(top):
        for name in files:
            st = os.lstat(os.path.join(where, name))
            total += st.st_size if st.st_nlink == 1 else st.st_size // st.st_nlink
    return total


def make_image(top):
    """The path of an OCI archive, and what is in it: layers, bytes."""
    buildah = ["buildah", "--root", f"{top}/storage", "--runroot", f"{top}/run",
               "--storage-driver", "vfs"]
    box = run(*buildah, "from", "scratch")
    run(*buildah, "add", "-q", box, harness.debian_image(), "/")
    image = run(*buildah, "commit", "-q", "--rm", box)
    for script in LAYERS:
        box = run(*buildah, "from", image)
        root = run(*buildah, "mount", box)
        run("sh", "-ec", script, cwd=root)
        size = content_bytes(root)
        run(*buildah, "umount", box)
        image = run(*buildah, "commit", "-q", "--rm", box)
    run(*buildah, "push", "-q", image, f"oci-archive:{top}/image.tar:latest")
    shutil.rmtree(f"{top}/storage")
    return f"{top}/image.tar", size


def seconds(*argv, **kw):
    began = time.monotonic()
    run(*argv, **kw)
    return time.monotonic() - began


def others(top, archive):
    for name in ("layout", "bundle"):
        shutil.rmtree(f"{top}/{name}", ignore_errors=True)
    os.sync()
    return (seconds("skopeo", "--insecure-policy", "copy", "-q",
                    f"oci-archive:{archive}", f"oci:{top}/layout:latest") +
            seconds("umoci", "unpack", "--image", f"{top}/layout:latest",
                    f"{top}/bundle"))


def ours(i, archive):
    i.api("DELETE", "/v1/images/imported")
    os.sync()
    return seconds(*i.cli_argv("image", "import", archive, "imported"),
                   env=i.env())


def part(say, judge):
    say("\nImages that come in")
    missing = [t for t in TOOLS if not shutil.which(t)]
    if missing:
        say(f"*** NOT MEASURED: {', '.join(missing)} not installed: run `make "
            "deps` ***")
        judge("import of 500 MB, of skopeo copy + umoci unpack", None, 1.5)
        return
    with tempfile.TemporaryDirectory(prefix="bench-images-") as top:
        archive, size = make_image(top)
        say(f"  {len(LAYERS) + 1} layers, {size / 1e6:.0f} MB of files, "
            f"{os.path.getsize(archive) / 1e6:.0f} MB as an archive")
        if size < LEAST_BYTES:
            raise RuntimeError("the image is too small")
        with harness.Instance(pool_size="8G", log_level="info") as i:
            got = in_turns({"carrel": lambda: ours(i, archive),
                            "others": lambda: others(top, archive)}, TIMES)
    say(f"  carrel image import            {got['carrel']:6.2f} s")
    say(f"  skopeo copy + umoci unpack     {got['others']:6.2f} s")
    judge("import of 500 MB, of skopeo copy + umoci unpack",
          got["carrel"] / got["others"], 1.5)
