# suite: workbench
"""Programs as people have them, through the gate: each works when its policy
allows it, and says something useful when not."""

import base64
import hashlib
import io
import json
import os
import shlex
import subprocess
import tarfile
import tempfile
import zipfile

import harness
from harness import SLOW, wait_for
from internet import Internet, answer

PROXIES = "env -u HTTP_PROXY -u HTTPS_PROXY -u http_proxy -u https_proxy "
DENIED = "no rule of the sandbox's rules allows it"


def wheel(name):
    """The smallest package that pip installs: (file name, bytes)."""
    info = f"{name}-1.0.dist-info"
    files = {f"{name}.py": "print('hello from a wheel')\n",
             f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\n"
                              "Root-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(f"{n},sha256=" + base64.urlsafe_b64encode(hashlib.sha256(
        t.encode()).digest()).decode().rstrip("=") + f",{len(t)}\n"
        for n, t in files.items()) + f"{info}/RECORD,,\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for n, t in {**files, f"{info}/RECORD": record}.items():
            z.writestr(n, t)
    return f"{name}-1.0-py3-none-any.whl", out.getvalue()


def npm_tar(name):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for n, text in (("package/package.json", json.dumps(
                {"name": name, "version": "1.0.0", "main": "i.js"})),
                ("package/i.js", "console.log('hello from npm')\n")):
            entry = tarfile.TarInfo(n)
            entry.size = len(text)
            t.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


class Files:
    """A handler of internet.py: serves a table, `default` for the rest."""

    def __init__(self, table):
        self.table = table

    def __call__(self, request):
        path = request.target.partition("?")[0]
        if path not in self.table:
            return answer("nothing here\n", 404)
        kind, body = self.table[path]
        return answer(body, fields=[("Content-Type", kind)])


def repository(top):
    """A repository as plain files, for git's oldest way over http."""
    work, bare = os.path.join(top, "work"), os.path.join(top, "repo.git")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": top,
           "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t",
           "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"}

    def git(*args):
        subprocess.run(["git", *args], check=True, env=env, capture_output=True)
    git("init", "-q", "-b", "main", work)
    with open(os.path.join(work, "README"), "w") as f:
        f.write("hello from git\n")
    git("-C", work, "add", "README")
    git("-C", work, "commit", "-qm", "first")
    git("clone", "-q", "--bare", work, bare)
    git("-C", bare, "update-server-info")
    table = {}
    for where, _, names in os.walk(bare):
        for name in names:
            path = os.path.join(where, name)
            with open(path, "rb") as f:
                table["/repo.git" + path[len(bare):]] = (
                    "application/octet-stream", f.read())
    return table


class Clients(harness.Case):
    CONF = {"pool_size": "4G", "disk": "1G", "memory": "1G"}
    IMAGE = "workbench"

    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.CONF = {**cls.CONF, **cls.net.conf}
        try:
            super().setUpClass()
            cls.api = cls.net.web("api.test")
            cls.box = cls.i.create(name="work", rules=[
                "allow GET,HEAD https://api.test/ok*",
                "allow GET,HEAD http://api.test/ok*",
                "allow GET https://git.test", "allow GET https://pkg.test",
                "allow GET https://npm.test", "allow tcp db.internal:15432",
                "allow GET https://ws.test", "private 127.0.0.1"])
        except BaseException:
            cls.net.close()
            raise

    @classmethod
    def tearDownClass(cls):
        try:
            super().tearDownClass()
        finally:
            cls.net.close()

    def tearDown(self):
        pass  # they share a sandbox

    def sh(self, script, ok=True, timeout=60):
        p = self.i.sh(self.box, script, timeout=timeout * SLOW)
        if ok:
            self.assertEqual(p.returncode, 0, p.out + p.err)
        return p.out + p.err

    def seen(self, server, target):
        self.assertIn(target, [r.target for r in server.requests])

    def test_curl(self):
        for url in ("https://api.test/ok1", "http://api.test/ok2"):
            for prefix in ("", PROXIES):
                got = json.loads(self.sh(f"{prefix} curl -sSf {url}"))
                self.assertEqual(got["target"], url[-4:])
        # Through the proxy and without, what is not allowed is explained.
        for url in ("https://api.test/no", "http://api.test/no"):
            for prefix in ("", PROXIES):
                out = self.sh(f"{prefix} curl -sS -w '%{{http_code}}' {url}")
                self.assertIn(DENIED, out)
                self.assertTrue(out.endswith("403"), out)
        self.assertIn("403", self.sh("curl -sS https://evil.test/", ok=False))
        self.assertIn("Could not resolve",
                      self.sh(f"{PROXIES} curl -sS https://evil.test/", ok=False))
        self.assertNotIn("evil.test", self.net.asked())

    def test_wget(self):
        self.assertIn('"/ok3"', self.sh("wget -qO- https://api.test/ok3"))
        self.assertIn("403", self.sh("wget -O- https://api.test/no", ok=False))

    def test_python(self):
        get = ("python3 -c 'import sys, urllib.request as u; "
               "print(u.urlopen(sys.argv[1]).read().decode())' ")
        for prefix in ("", PROXIES):
            self.assertIn('"/ok4"', self.sh(f"{prefix} {get} https://api.test/ok4"))
        self.assertIn("403", self.sh(get + "https://api.test/no", ok=False))

    def test_node(self):
        get = ("node -e 'fetch(process.argv[1]).then(async r => "
               "console.log(r.status, await r.text()))' ")
        self.assertIn('"/ok5"', self.sh(get + "https://api.test/ok5"))
        out = self.sh(get + "https://api.test/no")
        self.assertIn("403", out)
        self.assertIn(DENIED, out)

    def test_java(self):
        """keytool fetches lists by https, with Java's own trust."""
        get = "keytool -printcrl -file "
        self.sh(get + "https://api.test/ok6.crl", ok=False)
        self.seen(self.api, "/ok6.crl")
        out = self.sh(get + "https://api.test/no.crl", ok=False)
        self.assertIn("403", out)
        self.assertNotIn("/no.crl", [r.target for r in self.api.requests])

    def test_git(self):
        with tempfile.TemporaryDirectory() as top:
            server = self.net.web("git.test", handler=Files(repository(top)))
        out = self.sh("cd && git clone -q https://git.test/repo.git && cat repo/README")
        self.assertIn("hello from git", out)
        self.assertTrue(server.requests)
        out = self.sh("cd && git clone https://api.test/repo.git x", ok=False)
        self.assertIn("403", out)

    def test_pip(self):
        name, data = wheel("demo")
        self.net.web("pkg.test", handler=Files({
            "/simple/demo/": ("text/html", f'<a href="/files/{name}">{name}</a>'),
            f"/files/{name}": ("application/octet-stream", data)}))
        pip = "cd && pip install -q --index-url "
        self.sh(pip + "https://pkg.test/simple/ demo", timeout=120)
        self.assertIn("hello from a wheel", self.sh("python3 -m demo"))
        out = self.sh(pip + "https://api.test/simple/ --retries 0 other", ok=False,
                      timeout=120)
        self.assertRegex(out, "403|No matching distribution")

    def test_npm(self):
        tar = npm_tar("demo")
        self.net.web("npm.test", handler=Files({
            "/demo": ("application/json", json.dumps({
                "name": "demo", "dist-tags": {"latest": "1.0.0"},
                "versions": {"1.0.0": {
                    "name": "demo", "version": "1.0.0", "dist": {
                        "tarball": "https://npm.test/demo.tgz",
                        "shasum": hashlib.sha1(tar).hexdigest()}}}})),
            "/demo.tgz": ("application/octet-stream", tar)}))
        npm = ("mkdir -p ~/n && cd ~/n && node /opt/npm/bin/npm-cli.js install "
               "--no-audit --no-fund --registry ")
        self.sh(npm + "https://npm.test/ demo", timeout=120)
        self.assertIn("hello from npm", self.sh("cd ~/n && node -e 'require(\"demo\")'"))
        out = self.sh(npm + "https://api.test/ other", ok=False, timeout=120)
        self.assertIn("403", out)

    def test_static_program(self):
        """busybox knows no proxy here: everything is the kernel's routing."""
        self.i.import_image("tiny")
        box = self.i.create(image="tiny", rules=["allow GET http://api.test/ok*"])
        ask = "printf 'GET %s HTTP/1.0\\r\\nHost: api.test\\r\\n\\r\\n' | nc api.test 80"
        p = self.i.sh(box, ask % "/ok7")
        self.assertIn('"/ok7"', p.out, p.err)
        self.assertIn(DENIED, self.i.sh(box, ask % "/no").out)
        p = self.i.sh(box, "nc api.test 22 </dev/null; nc 203.0.113.77 80 </dev/null")
        self.assertEqual(p.out, "")
        self.i.rm(box)

    def test_psql(self):
        """To a server of the host, which a policy has to name."""
        pg, data = "/usr/lib/postgresql/15/bin", "/home/user/pg"
        db = self.i.create(name="db")
        p = self.i.sh(db, f"{pg}/initdb -D {data} -U user -A trust --no-sync",
                      timeout=120 * SLOW)
        self.assertEqual(p.returncode, 0, p.err)
        r = self.i.api("POST", f"/v1/sandboxes/{db}/processes", {
            "command": f"exec {pg}/postgres -D {data} -k /tmp -c jit=off",
            "detach": True})
        self.assertEqual(r.status, 201, r)
        wait_for("postgres", lambda: self.i.sh(
            db, f"{pg}/psql -h 127.0.0.1 -U user -c 'select 1' postgres"
            ).returncode == 0, 60 * SLOW, 0.1)
        self.net.names.table["db.internal"] = ["127.0.0.1"]
        tunnel = self.i.popen("port", "db", "5432", "15432",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            ask = f"{pg}/psql -h db.internal -p %s -U user -Atc 'select 6*7' postgres"
            wait_for("the host's port", lambda: self.i.sh(
                self.box, ask % 15432).out == "42\n", 30 * SLOW, 0.2)
            out = self.sh(ask % 15433, ok=False)
            self.assertRegex(out, "refused|closed|could not|failed")
        finally:
            tunnel.kill()
            tunnel.communicate()
        self.i.rm("db")

    def test_websocket(self):
        def serve(sock):
            head = b""
            while b"\r\n\r\n" not in head:
                head += sock.recv(4096)
            key = [x.split(b": ")[1] for x in head.split(b"\r\n")
                   if x.lower().startswith(b"sec-websocket-key")][0]
            sum_ = base64.b64encode(hashlib.sha1(
                key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                         b"Connection: Upgrade\r\nSec-WebSocket-Accept: " + sum_ +
                         b"\r\n\r\n")
            got = sock.recv(4096)  # one masked frame, short
            mask, text = got[2:6], got[6:]
            text = bytes(c ^ mask[n % 4] for n, c in enumerate(text))
            sock.sendall(bytes([0x81, len(text)]) + text.upper())
            sock.recv(1)
        self.net.web("ws.test").raw = serve
        script = r"""
import socket, ssl
c = ssl.create_default_context(cafile="/etc/ssl/certs/ca-certificates.crt")
s = c.wrap_socket(socket.create_connection(("ws.test", 443)), server_hostname="ws.test")
s.sendall(b"GET /chat HTTP/1.1\r\nHost: ws.test\r\nUpgrade: websocket\r\n"
          b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
          b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
head = b""
while b"\r\n\r\n" not in head: head += s.recv(4096)
s.sendall(b"\x81\x85" + b"\0\0\0\0" + b"hello")
print(head.split(b"\r\n")[0], s.recv(100)[2:])
"""
        out = self.sh(f"python3 -c {shlex.quote(script)}")
        self.assertIn("101", out)
        self.assertIn("HELLO", out)


if __name__ == "__main__":
    harness.main()
