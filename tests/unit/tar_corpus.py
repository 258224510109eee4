"""Hostile tars, made byte by byte.

cases(canary) is a list of Case(name, data, refused, check). `data` gives the bytes (a
function, because some are large). `refused` is a part of the error that the
worker must give; None means that it must accept the archive and neutralise what
is in it, which check(root) then verifies; root.at("path") is a path below the
new root. `canary` is the directory that the attacks aim at.
"""

import binascii
import bz2
import gzip
import lzma
import os
import stat
import struct
import subprocess

BLOCK = 512


class Case:
    def __init__(self, name, data, refused=None, check=None):
        self.name, self.data = name, data
        self.refused, self.check = refused, check


def octal(value, width):
    return b"%0*o\0" % (width - 1, value)


def binary(value, width):
    """The GNU form of numbers that octal cannot hold, also negative ones."""
    raw = (value & ((1 << (8 * width)) - 1)).to_bytes(width, "big")
    return bytes([raw[0] | 0x80]) + raw[1:]


def head(name, kind=b"0", size=0, mode=0o644, link=b"", uid=0, gid=0,
         mtime=1600000000, dev=(0, 0), magic=b"ustar\x0000", **raw):
    """One header; `raw` replaces fields (uid, size, mtime...) by bytes."""
    prefix = b""
    if len(name) > 100 and magic == b"ustar\x0000":
        cut = name.rindex(b"/", 0, 156)
        prefix, name = name[:cut], name[cut + 1:]
    assert len(name) <= 100 and len(link) <= 100
    fields = [
        ("name", name, 100), ("mode", octal(mode, 8), 8),
        ("uid", octal(uid, 8), 8), ("gid", octal(gid, 8), 8),
        ("size", octal(size, 12), 12), ("mtime", octal(mtime, 12), 12),
        ("sum", b" " * 8, 8), ("kind", kind, 1), ("link", link, 100),
        ("magic", magic, 8), ("uname", b"", 32), ("gname", b"", 32),
        ("major", octal(dev[0], 8), 8), ("minor", octal(dev[1], 8), 8),
        ("prefix", prefix, 155), ("rest", b"", 12),
    ]
    out = b"".join(raw.get(f"{n}_raw", v).ljust(w, b"\0") for n, v, w in fields)
    assert len(out) == BLOCK
    total = sum(out)
    if "sum_raw" in raw:
        return out
    return out[:148] + b"%06o\0 " % total + out[156:]


def pad(data):
    return data + b"\0" * (-len(data) % BLOCK)


def file(name, data=b"evil\n", **kw):
    return head(name, size=len(data), **kw) + pad(data)


def folder(name, mode=0o755, **kw):
    return head(name, b"5", mode=mode, **kw)


def symlink(name, target, **kw):
    return head(name, b"2", mode=0o777, link=target, **kw)


def hardlink(name, target, **kw):
    return head(name, b"1", link=target, **kw)


def pax(records, kind=b"x"):
    body = b""
    for key, value in records:
        rest = b" " + key + b"=" + value + b"\n"
        n = len(rest) + 1
        while len(b"%d" % n) + len(rest) != n:
            n = len(b"%d" % n) + len(rest)
        body += b"%d" % n + rest
    return head(b"pax", kind, size=len(body)) + pad(body)


def gnu_long(value, kind=b"L"):
    value += b"\0"
    return head(b"././@LongLink", kind, size=len(value),
                magic=b"ustar  \0") + pad(value)


EXE = file(b"bin/true", b"#!/bin/sh\n", mode=0o755)
END = b"\0" * (2 * BLOCK)


def tar(*parts):
    """With one executable, so that it would do as an image."""
    return lambda: EXE + b"".join(parts) + END


# --- what an accepted one must look like ------------------------------------

def is_file(path, content=b"evil\n"):
    def check(root):
        st = os.lstat(root.at(path))
        assert stat.S_ISREG(st.st_mode), f"{path} is no regular file"
        with open(root.at(path), "rb") as f:
            assert content in (None, f.read()), f"{path} has other content"
    return check


def is_dir(path):
    def check(root):
        assert stat.S_ISDIR(os.lstat(root.at(path)).st_mode), f"{path}: no directory"
    return check


def is_link(path):
    def check(root):
        assert os.path.islink(root.at(path)), f"{path} is no link"
    return check


def missing(path):
    def check(root):
        assert not os.path.lexists(root.at(path)), f"{path} is there"
    return check


def mode_is(path, mode):
    def check(root):
        got = stat.S_IMODE(os.lstat(root.at(path)).st_mode)
        assert got == mode, f"{path}: mode {got:o}"
    return check


def owner_is(path, uid, gid):
    def check(root):
        st = os.lstat(root.at(path))
        assert (st.st_uid, st.st_gid) == (uid, gid), f"{path}: {st.st_uid}:{st.st_gid}"
    return check


def xattrs_are(path, names):
    def check(root):
        got = sorted(os.listxattr(root.at(path), follow_symlinks=False))
        assert got == names, f"{path}: attributes {got}"
    return check


def every(*checks):
    def check(root):
        for c in checks:
            c(root)
    return check


# --- special streams ---------------------------------------------------------

def zstd(data, *options):
    return subprocess.run(["zstd", "-q", *options], input=data, check=True,
                          stdout=subprocess.PIPE).stdout


def bomb(pack):
    """A file of 4 GiB of zeros, as packed streams one behind the other."""
    return lambda: pack(EXE + head(b"zero", size=4 << 30)) + \
        64 * pack(b"\0" * (64 << 20))


def xz_huge_dictionary():
    """An .xz that says that its dictionary has 4 GiB."""
    data = bytearray(lzma.compress(EXE + END, filters=[
        {"id": lzma.FILTER_LZMA2, "dict_size": 4096}]))
    size = (data[12] + 1) * 4
    at = 12 + data[12:12 + size].index(b"\x21\x01") + 2
    data[at] = 40
    struct.pack_into("<I", data, 12 + size - 4,
                     binascii.crc32(data[12:12 + size - 4]))
    return bytes(data)


def sparse_old(realsize, chunks):
    """The old GNU form: map in the header."""
    h = bytearray(head(b"sparse", b"S", size=sum(n for _, n in chunks),
                       magic=b"ustar  \0"))
    for i, (offset, n) in enumerate(chunks[:4]):
        h[386 + 24 * i:386 + 24 * i + 24] = field(offset) + field(n)
    h[483:495] = field(realsize)
    h[148:156] = b" " * 8
    h[148:156] = b"%06o\0 " % sum(h)
    return bytes(h) + pad(b"x" * sum(n for _, n in chunks))


def field(value):
    return binary(value, 12) if value >= 1 << 33 else octal(value, 12)


def sparse_pax(size, text):
    """pax 1.0: the map is text in front of the content."""
    body = pad(text) + b"x" * BLOCK
    return pax([(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"),
                (b"GNU.sparse.name", b"sparse"),
                (b"GNU.sparse.realsize", b"%d" % size)]) + file(
                    b"GNUSparseFile.0/sparse", body)


def deep(n, name=b"d"):
    path = b"/".join([name] * n) + b"/f"
    return pax([(b"path", path)]) + file(b"f")


def long_path(parts):
    return b"/".join([b"x" * 200] * parts)


# --- the corpus --------------------------------------------------------------

def cases(canary):
    c = canary.encode()
    up = b"../" * 12 + c.lstrip(b"/")  # the canary, relative to anywhere
    out = []

    def add(name, data, refused=None, check=None):
        out.append(Case(name, data, refused, check))

    # Names that lead out.
    add("dotdot", tar(file(b"../evil")), '".."')
    add("dotdot-far", tar(file(up[:90] + b"/evil")), '".."')
    add("dotdot-middle", tar(folder(b"a/"), file(b"a/../../evil")), '".."')
    add("dotdot-inside", tar(folder(b"a/"), file(b"a/../evil")), '".."')
    add("dotdot-last", tar(file(b"a/..")), '".."')
    add("dotdot-folder", tar(folder(b"../")), '".."')
    add("absolute", tar(file(b"/evil")), check=is_file("evil"))
    add("absolute-canary", tar(file(c + b"/evil")),
        check=is_file(canary.lstrip("/") + "/evil"))
    add("slashes", tar(file(b"///etc////evil")), check=is_file("etc/evil"))
    add("dots", tar(file(b"./././a/./evil")), check=is_file("a/evil"))
    add("root-as-file", tar(file(b".")), "root is not a directory")
    add("folder-by-slash-with-content", tar(file(b"d/")), "")
    add("root-as-link", tar(symlink(b".", c)), "root is not a directory")
    add("root-as-hardlink", tar(hardlink(b"/", b"bin/true")),
        "root is not a directory")
    add("root-closed", tar(folder(b"./", 0o000, uid=1000)),
        check=every(mode_is("", 0o755), owner_is("", 0, 0)))
    add("backslashes", tar(file(b"..\\..\\evil")), check=is_file("..\\..\\evil"))
    add("newline-in-name", tar(file(b"a\ndone 1 1\n/../x")), '".."')
    add("no-name", tar(file(b"")), "")
    add("pax-dotdot", tar(pax([(b"path", b"../evil")]), file(b"ok")), '".."')
    add("pax-absolute", tar(pax([(b"path", c + b"/evil")]), file(b"ok")),
        check=is_file(canary.lstrip("/") + "/evil"))
    add("pax-nul-in-path", tar(pax([(b"path", b"a\0/../../evil")]), file(b"ok")),
        check=missing("ok"))
    add("pax-empty-path", tar(pax([(b"path", b"")]), file(b"ok")),
        check=is_file("ok"))
    add("pax-global-path", tar(pax([(b"path", b"../evil")], b"g"), file(b"ok")),
        check=is_file("ok"))
    add("gnu-longname-dotdot", tar(gnu_long(b"a/" * 60 + b"../" * 70 + b"evil"),
                                   file(b"ok", magic=b"ustar  \0")), '".."')
    add("gnu-longlink-dotdot", tar(gnu_long(b"../" * 60 + b"evil", b"K"),
                                   hardlink(b"ok", b"x", magic=b"ustar  \0")),
        '".."')

    # Links, and what comes after them.
    for kind, target in (("absolute", c), ("relative", up[:90]),
                         ("proc", b"/proc/1/root" + c),
                         ("fd", b"/proc/self/fd/3/.."), ("dot", b"."),
                         ("root", b"/")):
        add(f"symlink-{kind}-then-file", tar(symlink(b"l", target),
                                             file(b"l/evil")), "link or a file")
        add(f"symlink-{kind}-replaced", tar(symlink(b"l", target),
                                            file(b"l")), check=is_file("l"))
    add("symlink-then-folder", tar(symlink(b"l", c), folder(b"l/"),
                                   file(b"l/evil")),
        check=every(is_dir("l"), is_file("l/evil")))
    add("symlink-chain", tar(symlink(b"a", b"b"), symlink(b"b", c),
                             file(b"a/evil")), "link or a file")
    add("symlink-loop", tar(symlink(b"a", b"b"), symlink(b"b", b"a"),
                            file(b"a/evil")), "link or a file")
    add("symlink-to-file-outside", tar(symlink(b"l", c + b"/file"), file(b"l")),
        check=is_file("l"))
    add("symlink-mode-and-owner", tar(symlink(b"l", c + b"/file", uid=1000)),
        check=every(is_link("l"), owner_is("l", 1000, 0)))
    add("symlink-empty", tar(symlink(b"l", b"")), "link to nothing")
    add("hardlink-outside", tar(hardlink(b"h", c + b"/file")), "no earlier file")
    add("hardlink-dotdot", tar(hardlink(b"h", up[:90])), '".."')
    add("hardlink-missing", tar(hardlink(b"h", b"bin/none")), "no earlier file")
    add("hardlink-to-folder", tar(folder(b"d/"), hardlink(b"h", b"d")),
        "no earlier file")
    add("hardlink-to-root", tar(hardlink(b"h", b"./")), "no earlier file")
    add("hardlink-to-itself", tar(file(b"h"), hardlink(b"h", b"./h")),
        check=is_file("h"))
    add("hardlink-through-symlink", tar(symlink(b"l", c), hardlink(
        b"h", b"l/file")), "link or a file")
    add("hardlink-to-symlink-then-file", tar(
        symlink(b"l", c + b"/file"), hardlink(b"h", b"l"), file(b"h")),
        check=every(is_link("l"), is_file("h")))
    add("hardlink-then-overwrite", tar(
        file(b"a", b"first"), hardlink(b"b", b"a"), file(b"b", b"second")),
        check=every(is_file("a", b"first"), is_file("b", b"second")))
    add("hardlink-replaces-its-parent", tar(
        file(b"d/f"), hardlink(b"d", b"d/f")), "hard link")
    add("hardlink-with-content", tar(
        file(b"a", b"first"), pax([(b"mtime", b"1")]),
        head(b"b", b"1", link=b"a", size=4) + pad(b"evil")),
        check=every(is_file("a", b"first"), is_file("b", b"first")))
    add("hardlink-with-content-ustar", tar(
        file(b"a", b"first"), head(b"b", b"1", link=b"a", size=4) + pad(b"evil")),
        "")

    # One thing in place of another.
    add("duplicate", tar(file(b"a", b"1"), file(b"a", b"2"), file(b"a", b"3")),
        check=is_file("a", b"3"))
    add("folder-becomes-file", tar(
        folder(b"d/", 0o000), file(b"d/x/y/z"), file(b"d/x/w"), file(b"d")),
        check=is_file("d"))
    add("file-becomes-folder", tar(file(b"d"), file(b"d/x")), "link or a file")
    add("file-becomes-real-folder", tar(file(b"d"), folder(b"d/"), file(b"d/x")),
        check=is_file("d/x"))
    add("folder-becomes-link", tar(file(b"d/x"), symlink(b"d", c), file(b"d/x")),
        "link or a file")
    add("fifo-becomes-file", tar(head(b"p", b"6"), file(b"p")),
        check=is_file("p"))
    add("below-fifo", tar(head(b"p", b"6"), file(b"p/x")), "link or a file")

    # What must not be on disk.
    add("block-device", tar(head(b"sda", b"4", dev=(8, 0))),
        check=missing("sda"))
    add("char-device", tar(head(b"mem", b"3", dev=(1, 1))),
        check=missing("mem"))
    # Devices and directories have no content, whatever their size says.
    add("device-with-content", tar(
        head(b"mem", b"3", dev=(1, 1), size=5) + pad(b"12345"), file(b"ok")), "")
    add("whiteout", tar(head(b"bin/sh", b"3", dev=(0, 0))), "whiteout")
    add("setuid", tar(file(b"su", mode=0o4755)), check=mode_is("su", 0o755))
    add("setgid", tar(file(b"su", mode=0o6711)), check=mode_is("su", 0o711))
    add("setgid-folder", tar(folder(b"mail/", 0o6775, gid=8)),
        check=every(mode_is("mail", 0o2775), owner_is("mail", 0, 8)))
    for key in (b"security.capability", b"security.selinux", b"trusted.x",
                b"trusted.overlay.opaque", b"user.overlay.opaque",
                b"system.posix_acl_access", b"system.nfs4_acl", b"user."):
        add("xattr-" + key.decode(), tar(
            pax([(b"SCHILY.xattr." + key, b"\1\0\0\2" + b"\0" * 16)]),
            file(b"x", mode=0o755)), check=xattrs_are("x", []))
    add("xattr-libarchive-form", tar(
        pax([(b"LIBARCHIVE.xattr.security.capability", b"AQAAAgAAAAAAAAAA")]),
        file(b"x", mode=0o755)), check=xattrs_are("x", []))
    add("xattr-user", tar(pax([(b"SCHILY.xattr.user.note", b"hello")]),
                          file(b"x")), check=xattrs_are("x", ["user.note"]))
    add("xattrs-many", tar(pax([(b"SCHILY.xattr.user.n%d" % i, b"v")
                                for i in range(200)]), file(b"x")),
        "over 64 attributes")
    add("acl", tar(pax([(b"SCHILY.acl.access",
                         b"user::rwx,user:1000:rwx,group::r-x,mask::rwx,"
                         b"other::r-x")]), file(b"x", mode=0o755)),
        check=xattrs_are("x", []))

    # Ids and times.
    add("id-65536", tar(file(b"x", uid=65536, gid=70000)),
        check=owner_is("x", 65534, 65534))
    add("id-65535", tar(file(b"x", uid=65535, gid=65535)),
        check=owner_is("x", 65535, 65535))
    add("id-minus-one", tar(file(b"x", uid_raw=binary(-1, 8),
                                 gid_raw=binary(-1, 8))),
        check=owner_is("x", 65534, 65534))
    add("id-huge", tar(pax([(b"uid", b"4294967295"), (b"gid", b"1" * 30)]),
                       file(b"x")), check=owner_is("x", 65534, 65534))
    add("time-odd", tar(file(b"x", mtime_raw=binary(-1 << 60, 12)),
                        pax([(b"mtime", b"9" * 30 + b".999999999999")]),
                        file(b"y")), check=is_file("y"))

    # Sizes that are lies.
    add("name-too-long", tar(pax([(b"path", b"n" * 256)]), file(b"x")),
        "over 255 bytes")
    add("name-255", tar(pax([(b"path", b"n" * 255)]), file(b"x")),
        check=is_file("n" * 255))
    add("path-too-long", tar(pax([(b"path", long_path(21))]), file(b"x")),
        "over 4095 bytes")
    add("depth-128", tar(deep(127)), check=is_file("d/" * 127 + "f"))
    add("depth-129", tar(deep(128)), "128 directories deep")
    add("depth-100000", tar(deep(100000)), "")
    add("size-negative", tar(head(b"x", size_raw=binary(-512, 12))), "")
    add("size-exabytes", tar(head(b"x", size_raw=binary(1 << 62, 12))), "64 GiB")
    add("size-pax-exabytes", tar(pax([(b"size", b"9223372036854775807")]),
                                 file(b"x")), "")
    add("size-more-than-there", lambda: EXE + head(b"x", size=1 << 30) + END,
        "runcated")
    add("folder-with-size", lambda: EXE + folder(
        b"d/", size_raw=binary(1 << 50, 12)) + END, check=is_dir("d"))
    add("device-with-exabytes", lambda: EXE + head(
        b"sda", b"4", dev=(8, 0), size_raw=binary(1 << 62, 12)) + END,
        check=missing("sda"))
    add("sparse-exabytes", tar(sparse_old(1 << 62, [(0, 512)])), "64 GiB")
    add("sparse-beyond-size", tar(sparse_old(100, [(1 << 40, 512)])), "")
    add("sparse-backwards", tar(sparse_old(4096, [(2048, 512), (0, 512)])),
        check=is_file("sparse", b"x" * 512 + b"\0" * 1536 + b"x" * 512 +
                      b"\0" * 1536))
    add("sparse-pax-exabytes", tar(sparse_pax(1 << 62, b"1\n0\n512\n")), "64 GiB")
    add("sparse-pax-beyond", tar(sparse_pax(
        1024, b"1\n9223372036854775000\n512\n")), "")
    add("sparse-pax-map-lies", tar(sparse_pax(1024, b"99999999\n0\n512\n")), "")
    add("sparse-pax-map-text", tar(sparse_pax(1024, b"-1\nx\n512\n")), "")
    add("pax-header-too-large", tar(pax([(b"comment", b"x" * (4 << 20))]),
                                    file(b"x")), "")
    add("pax-length-lies", tar(head(b"pax", b"x", size=20) +
                               pad(b"999999 path=../evil\n"), file(b"ok")),
        check=missing("../evil"))
    add("longname-too-large", tar(gnu_long(b"a" * (2 << 20)), file(
        b"x", magic=b"ustar  \0")), "")

    # Broken and foreign streams.
    add("bad-checksum", tar(head(b"x", sum_raw=b"000001\0 ")), "")
    add("truncated-in-header", lambda: EXE + file(b"x")[:200], "runcated")
    add("truncated-in-content", lambda: EXE + file(b"x", b"y" * 5000)[:2000],
        "runcated")
    add("truncated-gzip", lambda: gzip.compress(
        EXE + file(b"x", os.urandom(50000)) + END)[:-20000], "")
    add("empty", lambda: b"", "")
    add("only-end", lambda: END, "not a root file system")
    add("random", lambda: b"\x37" * 40000, "not a tar")
    add("gzip-of-nothing", lambda: gzip.compress(b""), "")
    add("gzip-in-gzip-in-xz", lambda: lzma.compress(gzip.compress(gzip.compress(
        tar(file(b"x"))()))), check=is_file("x"))
    add("nested-30-times", nested(30), "")
    add("corrupt-bzip2", lambda: corrupt(bz2.compress(tar(file(
        b"x", os.urandom(20000)))())), "")
    for name, data in (("lz4", b"\x04\x22\x4d\x18" + b"\0" * 600),
                       ("compress", b"\x1f\x9d\x90" + b"\0" * 600),
                       ("lzip", b"LZIP\x01" + b"\0" * 600),
                       ("lrzip", b"LRZI\0\x06" + b"\0" * 600),
                       ("lzop", b"\x89LZO\0\r\n\x1a\n" + b"\0" * 600),
                       ("grzip", b"GRZipII\0\2\4:)" + b"\0" * 600),
                       ("uuencode", b"begin 644 x\n#0V%T\n`\nend\n" * 40),
                       ("rpm", b"\xed\xab\xee\xdb\3\0" + b"\0" * 600),
                       ("zip", b"PK\3\4" + b"\0" * 600),
                       ("cpio", b"070701" + b"0" * 600),
                       ("mtree", b"#mtree\n./evil type=file\n" * 30),
                       ("shell", b"#!/bin/sh\nexit 0\n" * 60)):
        add(f"foreign-{name}", lambda d=data: d, "not a tar")
    add("tail-too-long", lambda: EXE + END + b"x" * (20 << 20), "16 MiB follow")
    add("second-archive", lambda: EXE + END + file(b"late") + END,
        check=missing("late"))

    # Bombs.
    add("bomb-gzip", bomb(gzip.compress), "bomb")
    add("bomb-xz", bomb(lambda d: lzma.compress(d, preset=0)), "bomb")
    add("bomb-zstd", bomb(zstd), "bomb")
    add("bomb-bzip2", bomb(bz2.compress), "bomb")
    add("bomb-skipped-content", lambda: zstd(EXE + pax([(b"mtime", b"1")]) + head(
        b"h", b"1", link=b"bin/true", size=4 << 30)) + 64 * zstd(
            b"\0" * (64 << 20)), "bomb")
    add("bomb-entries", lambda: zstd(EXE) + 64 * zstd(folder(b"d/") * (1 << 17)),
        "bomb")
    add("xz-dictionary-4g", xz_huge_dictionary, "")
    add("zstd-window-1g", lambda: zstd(EXE + END, "--ultra", "--long=30"), "")

    # Mount points and files that are read when the image is prepared.
    for name in (b"proc", b"sys", b"dev", b"tmp", b"run", b"home", b"etc"):
        add(f"{name.decode()}-symlink", tar(symlink(name, c)),
            f"/{name.decode()} of this image")
        add(f"{name.decode()}-file", tar(file(name)),
            f"/{name.decode()} of this image")
    add("dev-content", tar(
        symlink(b"dev/null", c + b"/file"), symlink(b"dev/pts", c),
        symlink(b"dev/console", c + b"/file"), file(b"dev/shm/x/y"),
        folder(b"dev/closed/", 0)),
        check=lambda root: no_content(root, "dev"))
    add("sys-content", tar(symlink(b"sys/fs", c), symlink(b"proc/1", c)),
        check=lambda root: (no_content(root, "sys"), no_content(root, "proc")))
    add("tmp-mode", tar(folder(b"tmp/", 0o4700, uid=1000)),
        check=every(mode_is("tmp", 0o1777), owner_is("tmp", 0, 0)))
    add("passwd-symlink-outside", tar(symlink(b"etc/passwd", c + b"/file")),
        "/etc/passwd")
    add("passwd-symlink-up", tar(symlink(b"etc/passwd", up[:90]),
                                 folder(b"tmp/")), "/etc/passwd")
    add("passwd-symlink-inside", tar(
        symlink(b"etc/passwd", b"/lib/passwd"),
        file(b"lib/passwd", b"root:x:0:0::/:/bin/sh")),
        check=is_file("lib/passwd", b"root:x:0:0::/:/bin/sh\n"
                      b"user:x:1000:1000::/home/user:/bin/sh\n"))
    add("passwd-magic-link", tar(symlink(b"etc/passwd", b"/proc/self/fd/1")),
        "/etc/passwd")
    add("passwd-fifo", tar(head(b"etc/passwd", b"6")), "/etc/passwd")
    add("passwd-folder", tar(folder(b"etc/passwd/")), "/etc/passwd")
    add("passwd-large", tar(file(b"etc/passwd", b"x" * (2 << 20))), "/etc/passwd")
    add("passwd-names-taken", tar(
        file(b"etc/passwd", b"user:x:5:5::/:\nsandbox:x:6:6::/:\n"
             b"user1000:x:7:7::/:\n")), "no name is free")
    add("passwd-binary", tar(file(b"etc/passwd", b"\0:::\n:\n\xff" * 40)),
        check=is_dir("home/user"))
    add("home-user-symlink", tar(symlink(b"home/user", c)),
        check=is_link("home/user"))
    add("usr-local-symlink-outside", tar(symlink(b"usr/local", c)),
        "/usr/local")
    add("usr-local-symlink-inside", tar(
        symlink(b"usr/local", b"../opt/l"), folder(b"opt/l/bin/")),
        check=is_file("opt/l/bin/sudo", None))
    add("sudo-symlink", tar(symlink(b"usr/local/bin/sudo", c + b"/file")),
        check=is_file("usr/local/bin/sudo", None))
    add("sudo-folder", tar(file(b"usr/local/bin/sudo/x/y")),
        check=is_file("usr/local/bin/sudo", None))
    add("hosts-symlink", tar(symlink(b"etc/hosts", c + b"/hosts")),
        check=is_link("etc/hosts"))
    add("no-executable", lambda: file(b"etc/x") + folder(b"bin/") + END,
        "not a root file system")
    return out


def no_content(root, path):
    assert os.listdir(root.at(path)) == [], f"/{path} is not empty"


def corrupt(data):
    middle = len(data) // 2
    return data[:middle] + bytes(b ^ 0x55 for b in data[middle:middle + 8]) + \
        data[middle + 8:]


def nested(n):
    def make():
        data = tar(file(b"x"))()
        for _ in range(n):
            data = gzip.compress(data)
        return data
    return make
