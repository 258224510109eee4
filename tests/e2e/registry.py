"""Registries of images for tests: Debian's docker-registry, and one that can be
told to be difficult. Both are on the loopback address."""

import base64
import ctypes
import gzip
import hashlib
import http.client
import http.server
import io
import json
import os
import secrets
import shutil
import signal
import socket
import socketserver
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.parse

import harness
from tcp import free_port

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tar(files):
    """{path: bytes} as a tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, data in files.items():
            e = tarfile.TarInfo(name)
            e.size, e.mode = len(data), 0o644
            t.addfile(e, io.BytesIO(data))
    return out.getvalue()


class Image:
    """Documents and blobs of an image: layers are tars."""

    def __init__(self, layers, config=None, arch="amd64", zipped=True):
        self.blobs = {}
        diffs, described = [], []
        for plain in layers:
            stored = gzip.compress(plain, 1, mtime=0) if zipped else plain
            diffs.append(digest(plain))
            described.append(self.add(stored, LAYER + "+gzip" * zipped))
        self.layers = described
        self.config = self.add(json.dumps({
            "architecture": arch, "os": "linux", "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": diffs}}).encode(), CONFIG)
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": self.config,
            "layers": described}).encode()
        self.arch = arch

    def add(self, data, media_type):
        self.blobs[digest(data)] = data
        return {"mediaType": media_type, "digest": digest(data),
                "size": len(data)}


def layout(image):
    """An OCI layout of it as a tar."""
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
             "index.json": index_of(image)}
    for data in (image.manifest, *image.blobs.values()):
        files["blobs/sha256/" + digest(data)[7:]] = data
    return tar(files)


def tiny_layers(extra=None):
    with open(harness.tiny_image(), "rb") as f:
        base = f.read()
    return [base, tar(extra or {"etc/pulled": b"yes\n"})]


def index_of(*images):
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        {"mediaType": MANIFEST, "digest": digest(i.manifest),
         "size": len(i.manifest),
         "platform": {"os": "linux", "architecture": i.arch}}
        for i in images]}).encode()


# ---------------------------------------------------------------------------
# One that is ours


class Fake(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Serves what is in `manifests` ({reference: (type, bytes)}) and `blobs`.

    auth: None, "basic" or "token" (user "me", password "secret").
    cut: {digest: bytes after which the connection breaks, once}.
    lose: so many pieces of uploads are taken in part and answered 503.
    """
    daemon_threads = True

    def __init__(self, context=None):
        super().__init__(("127.0.0.1", 0), FakeHandler)
        self.manifests, self.blobs, self.seen = {}, {}, []
        self.auth = self.realm = self.redirect = None
        self.cut = {}
        self.ignore_range = False
        self.fail_next = self.lose = 0
        self.uploads = {}
        self.token = "T" + os.urandom(8).hex()
        self.scheme = "http"
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
            self.scheme = "https"
        threading.Thread(target=self.serve_forever, args=(0.05,),
                         daemon=True).start()

    @property
    def host(self):
        return f"localhost:{self.server_address[1]}"

    def add(self, tag, *images):
        for i in images:
            self.blobs.update(i.blobs)
            self.manifests[digest(i.manifest)] = (MANIFEST, i.manifest)
        top = (MANIFEST, images[0].manifest) if len(images) == 1 else \
            (INDEX, index_of(*images))
        self.manifests[tag] = self.manifests[digest(top[1])] = top

    def close(self):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass


class Slow:
    """Bytes of a blob: those behind the first `n` come when the gate opens."""

    def __init__(self, data, n, gate):
        self.data, self.n, self.gate = data, n, gate

    def __len__(self):
        return len(self.data)


class Drip(bytes):
    """Bytes of a blob that come one by one, until nobody takes them."""


class FakeHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", **fields):
        self.send_response(status)
        for k, v in fields.items():
            self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def allowed(self):
        s, sent = self.server, self.headers.get("Authorization")
        basic = "Basic " + base64.b64encode(b"me:secret").decode()
        if self.path.startswith("/token?"):
            query = urllib.parse.parse_qs(self.path.partition("?")[2])
            if sent != basic or not query["scope"][0].startswith("repository:"):
                self.answer(401)
            else:
                self.answer(200, json.dumps({"token": s.token}).encode())
            return False
        if s.auth == "basic" and sent != basic:
            self.answer(401, WWW_Authenticate='Basic realm="x"')
        elif s.auth == "token" and sent != "Bearer " + s.token:
            realm = s.realm or f"{s.scheme}://{s.host}/token"
            self.answer(401, WWW_Authenticate=f'Bearer realm="{realm}",'
                        'service="fake",scope="repository:x:pull"')
        else:
            return True
        return False

    def do_GET(self):
        s = self.server
        if "/uploads/" in self.path:
            self.upload()
            return
        s.seen.append((self.command, self.path, dict(self.headers)))
        if s.fail_next:
            s.fail_next -= 1
            self.answer(503)
        elif self.allowed():
            kind, _, ref = self.path.rpartition("/")
            if kind.endswith("/manifests") and ref in s.manifests:
                media_type, data = s.manifests[ref]
                self.answer(200, data, Content_Type=media_type)
            elif kind.endswith("/blobs") and s.redirect:
                self.answer(307, Location=s.redirect + self.path)
            elif kind.endswith("/blobs") and ref in s.blobs:
                self.blob(s.blobs[ref], s.cut.pop(ref, None))
            else:
                self.answer(404, b'{"errors": [{"message": "unknown"}]}')
    do_HEAD = do_GET

    def upload(self):
        """POST, PATCH, GET and PUT of one, as the distribution protocol says."""
        s = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        s.seen.append((self.command, self.path, dict(self.headers)))
        if not self.allowed():
            return
        path, _, query = self.path.partition("?")
        if "/manifests/" in path:
            ref = path.rpartition("/")[2]
            s.manifests[ref] = (self.headers["Content-Type"], body)
            self.answer(201, Location=path)
            return
        if self.command == "POST":
            path += os.urandom(4).hex()
            s.uploads[path] = b""
        elif self.command == "PATCH":
            start, end = map(int, self.headers["Content-Range"].split("-"))
            if start != len(s.uploads[path]) or end - start + 1 != len(body):
                self.answer(416)
                return
            if s.lose:
                s.lose -= 1
                s.uploads[path] += body[:len(body) // 2]
                self.answer(503)
                return
            s.uploads[path] += body
        elif self.command == "PUT":
            data = s.uploads.pop(path) + body
            wanted = urllib.parse.parse_qs(query)["digest"][0]
            if digest(data) != wanted:
                self.answer(400)
                return
            s.blobs[wanted] = data
        have = len(s.uploads.get(path, b""))
        self.answer({"POST": 202, "PATCH": 202, "GET": 204, "PUT": 201}
                    [self.command], Location=path,
                    Range=f"0-{have - 1 if have else 0}")
    do_POST = do_PATCH = do_PUT = upload

    def blob(self, data, cut):
        s, start = self.server, 0
        asked = self.headers.get("Range")
        if asked and not s.ignore_range:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if isinstance(data, Drip):
            for i in range(start, len(data)):
                self.wfile.write(data[i:i + 1])
                self.wfile.flush()
                time.sleep(0.5)
        elif isinstance(data, Slow):
            self.wfile.write(data.data[start:data.n])
            self.wfile.flush()
            data.gate.wait(60)
            self.wfile.write(data.data[max(start, data.n):])
        elif cut:
            self.wfile.write(data[start:start + cut])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            self.wfile.write(data[start:])


# ---------------------------------------------------------------------------
# Debian's


def bcrypt(password):
    """A line of htpasswd. Python 3.13 has no module for this any more."""
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    salt = "$2b$04$" + secrets.token_hex(11)
    return crypt(password.encode(), salt.encode()).decode()


class Real:
    """docker-registry; `user` and `password`: it wants them."""

    PROGRAM = shutil.which("docker-registry")

    def __init__(self, user=None, password=None):
        self.dir = tempfile.mkdtemp(prefix="registry-")
        self.port = free_port()
        self.host = f"localhost:{self.port}"
        self.auth = None
        conf = {"version": 0.1, "log": {"level": "error"},
                "storage": {"filesystem": {"rootdirectory": self.dir + "/data"}},
                "http": {"addr": f"127.0.0.1:{self.port}"}}
        if user:
            with open(self.dir + "/htpasswd", "w") as f:
                f.write(f"{user}:{bcrypt(password)}\n")
            conf["auth"] = {"htpasswd": {"realm": "here",
                                         "path": self.dir + "/htpasswd"}}
            self.auth = "Basic " + base64.b64encode(
                f"{user}:{password}".encode()).decode()
        with open(self.dir + "/config.yml", "w") as f:
            json.dump(conf, f)  # which is YAML, too
        self.log = open(self.dir + "/log", "w+b")
        self.process = subprocess.Popen(
            [self.PROGRAM, "serve", self.dir + "/config.yml"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env={"OTEL_TRACES_EXPORTER": "none", "HOME": self.dir})
        harness.wait_for("docker-registry listens", self.listens, 30)

    def listens(self):
        assert self.process.poll() is None, harness.read(self.dir + "/log")
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def ask(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = dict(headers or {})
        if self.auth:
            headers["Authorization"] = self.auth
        c.request(method, path, body, headers)
        r = c.getresponse()
        data = r.read()
        c.close()
        return r.status, r.headers, data

    def push(self, name, tag, image):
        for d, data in image.blobs.items():
            status, fields, _ = self.ask("POST", f"/v2/{name}/blobs/uploads/")
            assert status == 202, status
            to = urllib.parse.urlsplit(fields["Location"])
            status, _, said = self.ask(
                "PUT", f"{to.path}?{to.query}&digest={d}", data,
                {"Content-Type": "application/octet-stream"})
            assert status == 201, said
        status, _, said = self.ask("PUT", f"/v2/{name}/manifests/{tag}",
                                   image.manifest, {"Content-Type": MANIFEST})
        assert status == 201, said

    def close(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir)
