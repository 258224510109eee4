# suite: both
"""Secrets: a sandbox has placeholders, the servers they are for get the real
ones, and nobody else ever sees them."""

import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import urllib.parse

import harness
from harness import SLOW, wait_for
from internet import Inside, Internet, answer, echo

TOKEN = "tok-9f31c7d2e85a4b60/abc+XYZ=="
RULES = ["allow * https://api.test", "allow * http://api.test",
         "allow * https://other.test", "allow * https://s3.test"]


class Secrets(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.web = cls.net.web("api.test")
        cls.other = cls.net.web("other.test")
        cls.s3 = cls.net.web("s3.test")
        cls.CONF = dict(cls.net.conf)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.net.close()

    def setUp(self):
        for w in (self.web, self.other, self.s3):
            w.handler = None
            w.requests.clear()

    def set(self, name, *args, value=TOKEN):
        self.i.cli("secret", "set", name, *args, input=value, check=0)
        self.addCleanup(self.i.cli, "secret", "rm", name)

    def box(self, *secrets, **spec):
        return self.i.create(**{"rules": RULES, "secrets": list(secrets),
                                **spec})

    def inside(self, box):
        w = Inside(self.i, box)
        self.addCleanup(w.close)
        return w

    def get(self, box, url, *fields, body="", method=None):
        """What a process inside gets, for a request of its own."""
        w = self.inside(box)
        body = body.encode()
        method = method or ("POST" if body else "GET")
        fields = [tuple(f.split(": ", 1)) for f in fields]
        if url.startswith("http:"):
            return w.get(url, method, fields, body)
        host, _, path = url[len("https://"):].partition("/")
        s, r = w.tunnel(host)
        self.assertEqual(r.status, 200, r)
        # Tunnelled hosts have their own certificates.
        with open(self.net.ca.cert) as f:
            s = w.tls(s, host, ca=w.ca + f.read())
        with s:
            return w.get("/" + path, method, [("Host", host), *fields], body, s)

    def log(self, *types):
        r = self.i.api("GET", "/v1/events?after=0&follow=false")
        lines = [json.loads(x) for x in r.body.splitlines() if x.strip()]
        return [e for e in lines if e["type"] in types]

    def logged(self, n, *types):
        """So many of them, once the log has them."""
        wait_for(f"{n} of {types} in the log",
                 lambda: len(self.log(*types)) >= n, 10 * SLOW)
        return self.log(*types)

    # -- what is known of one

    def test_set_and_look(self):
        self.set("one", "--host", "API.test", "--host", "*.x.test:8443",
                 "--method", "GET,HEAD", "--path", "/a/*", "--env", "ONE")
        r = self.i.api("GET", "/v1/secrets/one").json
        self.assertEqual(r["hosts"], ["api.test", "*.x.test:8443"])
        self.assertEqual(r["methods"], ["GET", "HEAD"])
        self.assertEqual(r["template"], "Bearer {}")
        self.assertNotIn("sealed", r)
        out = self.i.cli("secret", "ls", check=0).out
        self.assertRegex(out, r"one +default +header +api.test and others +ONE")
        self.assertNotIn(TOKEN, out + self.i.cli("secret", "show", "one").out)
        self.assertEqual(self.i.cli("secret", "rm", "one").returncode, 0)
        self.assertEqual(self.i.api("GET", "/v1/secrets/one").status, 404)

    def test_refused(self):
        r = self.i.cli("secret", "set", "x", input=TOKEN)
        self.assertIn("hosts", r.err)
        r = self.i.cli("secret", "set", "x", "--host", "a.test", input="")
        self.assertIn("empty", r.err)
        body = {"kind": "header", "hosts": ["a.test"], "field": "X",
                "template": "{}"}
        for more, word in (({}, "sealed"), ({"value": "v"}, "seal it"),
                           ({"sealed": "?"}, "sealed"), ({"x": ""}, "x")):
            r = self.i.api("PUT", "/v1/secrets/x", json.dumps({**body, **more}))
            self.assertEqual(r.status, 400, r)
            self.assertIn(word, r.json["message"])
        r = self.i.api("POST", "/v1/sandboxes",
                       json.dumps({"secrets": ["nobodys"]}))
        self.assertEqual(r.status, 400)
        self.assertIn("no secret 'nobodys'", r.json["message"])

    # -- on the way out

    def test_header(self):
        self.set("github", "--host", "api.test", "--env", "GITHUB_TOKEN")
        box = self.box("github")
        word = self.i.sh(box, "echo $GITHUB_TOKEN").out.strip()
        self.assertRegex(word, r"^carrel-placeholder-[0-9a-f]{32}$")
        self.get(box, "https://api.test/user", f"Authorization: Bearer {word}")
        self.assertEqual(self.web.requests[-1].header("Authorization"),
                         f"Bearer {TOKEN}")
        self.assertEqual(self.web.requests[-1].header("Accept-Encoding"),
                         "identity")
        # Nothing was sent, something else was sent: the same.
        self.get(box, "https://api.test/a")
        self.get(box, "https://api.test/b", "authorization: Basic eHh4")
        for r in self.web.requests:
            self.assertEqual(r.header("Authorization"), f"Bearer {TOKEN}")
        # Not over plain http, not to others.
        n = len(self.web.requests)
        self.get(box, "http://api.test/plain")
        self.assertEqual(len(self.web.requests), n + 1)
        self.assertIsNone(self.web.requests[-1].header("Authorization"))
        self.get(box, "https://other.test/")
        self.assertIsNone(self.other.requests[-1].header("Authorization"))
        uses = wait_for("a use in the log", lambda: [
            e for e in self.log("egress.request")
            if e["data"].get("secrets") == ["github"]], 10 * SLOW)
        self.assertEqual(uses[0]["data"]["host"], "api.test")

    def test_placeholder_elsewhere(self):
        self.set("github", "--host", "api.test", "--env", "GITHUB_TOKEN")
        box = self.box("github")
        word = self.i.sh(box, "echo $GITHUB_TOKEN").out.strip()
        basic = base64.b64encode(f"me:{word}".encode()).decode()
        for url, field in (("https://api.test/", f"X-Key: {word}"),
                           (f"https://api.test/?k={word}", "X: y"),
                           ("http://api.test/", f"Authorization: Bearer {word}"),
                           ("http://api.test/", f"Authorization: Basic {basic}")):
            r = self.get(box, url, field)
            self.assertEqual(r.status, 403, (url, field))
            self.assertIn("github", r.text)
        self.assertEqual(self.web.requests, [])
        # It is the sandbox's own.
        two = self.box("github")
        self.assertNotEqual(self.i.sh(two, "echo $GITHUB_TOKEN").out.strip(),
                            word)

    def test_basic_and_query(self):
        self.set("basic", "--host", "api.test", "--basic", "me")
        self.set("query", "--host", "other.test", "--query", "api_key")
        box = self.box("basic", "query")
        self.get(box, "https://api.test/")
        want = base64.b64encode(f"me:{TOKEN}".encode()).decode()
        self.assertEqual(self.web.requests[-1].header("Authorization"),
                         f"Basic {want}")
        self.get(box, "https://other.test/x?a=1&api_key=wrong&b=2")
        got = urllib.parse.urlsplit(self.other.requests[-1].target)
        self.assertEqual(urllib.parse.parse_qsl(got.query),
                         [("a", "1"), ("b", "2"), ("api_key", TOKEN)])

    def test_plain_where_it_is_said(self):
        self.set("plain", "--host", "http://api.test", "--header",
                 "X-Key: key {} end")
        box = self.box("plain")
        self.get(box, "http://api.test/", "x-key: mine")
        self.assertEqual(self.web.requests[-1].header("X-Key"),
                         f"key {TOKEN} end")
        self.get(box, "https://api.test/")
        self.assertIsNone(self.web.requests[-1].header("X-Key"))

    def test_methods_and_paths(self):
        self.set("some", "--host", "api.test", "--method", "GET", "--path",
                 "/repos/acme/*")
        box = self.box("some")
        self.get(box, "https://api.test/repos/acme/x")
        self.assertTrue(self.web.requests[-1].header("Authorization"))
        self.get(box, "https://api.test/repos/other")
        self.assertIsNone(self.web.requests[-1].header("Authorization"))
        self.get(box, "https://api.test/repos/acme/x", body="b")
        self.assertEqual(self.web.requests[-1].method, "POST")
        self.assertIsNone(self.web.requests[-1].header("Authorization"))

    def test_change_and_revoke(self):
        self.set("turn", "--host", "api.test", "--env", "TURN")
        box = self.box("turn")
        word = self.i.sh(box, "echo $TURN").out.strip()
        self.get(box, "https://api.test/1")
        self.set("turn", "--host", "api.test", value="another-value")
        self.get(box, "https://api.test/2")
        self.assertEqual(self.web.requests[-1].header("Authorization"),
                         "Bearer another-value")
        self.i.cli("secret", "rm", "turn", check=0)
        self.get(box, "https://api.test/3")
        self.assertIsNone(self.web.requests[-1].header("Authorization"))
        # The last secret is gone, the placeholder is still none.
        r = self.get(box, "http://api.test/4", f"X-Key: {word}")
        self.assertEqual(r.status, 403)
        self.assertIn("was removed", r.text)
        self.assertEqual(
            [e["type"] for e in self.log("secret.set", "secret.remove")
             if e["data"]["name"] == "turn"],
            ["secret.set", "secret.set", "secret.remove"])

    def test_after_a_kill(self):
        self.set("steady", "--host", "api.test")
        box = self.box("steady")
        self.get(box, "https://api.test/1")
        self.i.kill_role("carrel-gate")
        self.get(box, "https://api.test/2")
        self.assertEqual([r.header("Authorization") for r in self.web.requests],
                         [f"Bearer {TOKEN}"] * 2)

    # -- on the way back

    def test_echo(self):
        self.set("echo", "--host", "api.test")
        box = self.box("echo")
        forms = [TOKEN, urllib.parse.quote(TOKEN, safe=""), TOKEN.encode().hex(),
                 base64.b64encode(b"me:" + TOKEN.encode()).decode()]

        def split(r):
            """Chunks of three bytes each."""
            text = " ".join(forms).encode()
            out = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" \
                  b"X-Echo: " + TOKEN.encode() + b"\r\n\r\n"
            for i in range(0, len(text), 3):
                out += b"%x\r\n%s\r\n" % (len(text[i:i + 3]), text[i:i + 3])
            return out + b"0\r\n\r\n"
        for handler in (echo, split):
            self.web.handler = handler
            r = self.get(box, "https://api.test/echo")
            self.assertEqual(r.status, 200)
            out = r.head.decode() + r.text
            self.assertIn("*" * len(TOKEN), out)
            for f in forms[:3]:
                self.assertNotIn(f, out)
            self.assertNotIn(base64.b64encode(TOKEN.encode())[4:-8].decode(),
                             out)
        events = self.logged(2, "secret.echo")
        self.assertEqual(events[-1]["data"]["name"], "echo")
        self.assertEqual(events[-1]["data"]["host"], "api.test")

    def test_echo_in_a_websocket(self):
        self.set("echo", "--host", "api.test")
        box = self.box("echo")
        seen = []

        def serve(c):
            head = b""
            while b"\r\n\r\n" not in head:
                head += c.recv(65536)
            seen.append(head)
            c.sendall(b"HTTP/1.1 101 Switching Protocols\r\n"
                      b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            c.sendall(b"<" + head + b">")
        self.web.raw = serve
        self.addCleanup(setattr, self.web, "raw", None)
        w = self.inside(box)
        s, r = w.tunnel("api.test")
        self.assertEqual(r.status, 200, r)
        with w.tls(s, "api.test") as s:
            s.sendall(b"GET /ws HTTP/1.1\r\nHost: api.test\r\n"
                      b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
                      b"Sec-WebSocket-Version: 13\r\n"
                      b"Sec-WebSocket-Extensions: permessage-deflate\r\n"
                      b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
            got = b""
            while b">" not in got:
                piece = s.recv(65536)
                if not piece:
                    break
                got += piece
        self.assertIn(TOKEN.encode(), seen[0])
        self.assertNotIn(b"permessage-deflate", seen[0])
        self.assertIn(b"GET /ws", got)
        self.assertNotIn(TOKEN.encode(), got)
        self.assertIn(b"*" * len(TOKEN), got)

    def test_echo_in_the_name_of_a_field(self):
        """Servers change the case of names."""
        value = "tok-9F31c7d2e85a4b60-abcXYZ"
        self.set("echo", "--host", "api.test", value=value)
        box = self.box("echo")
        for name in (value, value.upper(), value.title()):
            self.web.handler = lambda r, name=name: (
                f"HTTP/1.1 200 OK\r\nX-{name}: y\r\nX-Fine: z\r\n"
                "Content-Length: 0\r\n\r\n").encode()
            head = self.get(box, "https://api.test/").head.decode()
            self.assertNotIn(value.lower(), head.lower())
            self.assertIn("X-Fine: z", head)

    def test_echo_in_ranges(self):
        """Pieces of a secret would not be known as such."""
        self.set("echo", "--host", "api.test")
        box = self.box("echo")

        def ranges(r):
            whole = r.header("Authorization", "").encode()
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", r.header("Range", ""))
            if not wanted:
                return echo(r)
            part = whole[int(wanted[1]):int(wanted[2]) + 1]
            return (b"HTTP/1.1 206 Partial Content\r\nContent-Length: %d\r\n\r\n"
                    % len(part)) + part
        self.web.handler = ranges
        for first in range(0, len(TOKEN) + 8, 4):
            r = self.get(box, "https://api.test/", "If-Range: \"x\"",
                         f"Range: bytes={first}-{first + 3}")
            self.assertEqual(r.status, 200)
        self.assertIsNone(self.web.requests[-1].header("If-Range"))
        # Where no secret is, it stays.
        self.get(box, "https://other.test/", "Range: bytes=0-3")
        self.assertEqual(self.other.requests[-1].header("Range"), "bytes=0-3")

    # -- canaries

    def test_canary_in_other_forms(self):
        box = self.i.create(rules=RULES, canaries=["AWS_SECRET"])
        forms = {
            "upper case": "tr a-z A-Z",
            "lines of base64": "base64 -w 76",
            "lines of digits": "hexdump -v -e '30/1 \"%02x\" \"\\\\n\"'",
            "dump": "hexdump -C",
        }
        for name, form in forms.items():
            with self.subTest(name):
                text = self.i.sh(box, f"env | {{ {form}; }}").out
                self.assertGreater(len(text), 50)
                r = self.get(box, "https://api.test/", body=text)
                self.assertEqual(r.status, 403, text)
                self.assertIn("AWS_SECRET", r.text)
        self.assertEqual(self.web.requests, [])

    def test_canary_in_a_websocket(self):
        """Clients mask what is in their frames."""
        box = self.i.create(rules=RULES, canaries=["AWS_SECRET"])
        word = self.i.sh(box, "echo $AWS_SECRET").out.strip().encode()
        heard = []

        def serve(c):
            head = b""
            while b"\r\n\r\n" not in head:
                head += c.recv(65536)
            heard.append(head)
            c.sendall(b"HTTP/1.1 101 Switching Protocols\r\n"
                      b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            while piece := c.recv(65536):
                heard.append(piece)
                c.sendall(b"heard")
        self.web.raw = serve
        self.addCleanup(setattr, self.web, "raw", None)
        w = self.inside(box)
        s, r = w.tunnel("api.test")
        self.assertEqual(r.status, 200, r)

        def frame(text):
            key = b"\x5a\xa5\x3c\xc3"
            length = bytes([0x80 | len(text)]) if len(text) < 126 else \
                bytes([0x80 | 126]) + len(text).to_bytes(2, "big")
            return b"\x81" + length + key + bytes(
                b ^ key[i % 4] for i, b in enumerate(text))
        with w.tls(s, "api.test") as s:
            s.sendall(b"GET /ws HTTP/1.1\r\nHost: api.test\r\n"
                      b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
                      b"Sec-WebSocket-Version: 13\r\n"
                      b"Sec-WebSocket-Extensions: permessage-deflate\r\n"
                      b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
            got = b""
            while b"\r\n\r\n" not in got:
                got += s.recv(65536)
            s.sendall(frame(b"hello"))
            self.assertEqual(s.recv(65536), b"heard")
            half = len(word) // 2
            s.sendall(frame(b"x" * 200 + word[:half]))
            self.assertEqual(s.recv(65536), b"heard")
            s.sendall(frame(word[half:]))
            with contextlib.suppress(OSError):
                self.assertEqual(s.recv(65536), b"")
        self.assertNotIn(b"permessage-deflate", heard[0])
        self.assertEqual(len(heard), 3)
        self.logged(1, "canary.found")

    def test_canary(self):
        box = self.i.create(rules=RULES, canaries=["AWS_SECRET"])
        word = self.i.sh(box, "echo $AWS_SECRET").out.strip()
        self.assertGreater(len(word), 15)
        self.get(box, "https://api.test/fine", body="nothing")
        self.assertEqual(len(self.web.requests), 1)
        b64 = base64.b64encode(b"x" + word.encode()).decode()
        for url, kw in ((f"https://api.test/?q={word}", {}),
                        ("http://api.test/", {"body": f"a={word}"}),
                        ("https://api.test/", {"body": b64}),
                        ("https://other.test/", {"body": word.encode().hex()})):
            r = self.get(box, url, **kw)
            self.assertEqual(r.status, 403, (url, kw))
            self.assertIn("AWS_SECRET", r.text)
        self.assertEqual(len(self.web.requests) + len(self.other.requests), 1)
        events = self.logged(4, "canary.found")
        self.assertEqual(events[-1]["data"]["name"], "AWS_SECRET")
        self.assertEqual(events[-1]["data"]["host"], "other.test")

    def test_canary_of_an_ancestor(self):
        """What a disk brings along is watched for in forks and in what is made
        of snapshots, whatever they say of canaries themselves."""
        box = self.i.create(rules=RULES, canaries=["AWS_SECRET"])
        word = self.i.sh(box, "echo $AWS_SECRET | tee kept").out.strip()
        snap = self.i.api("POST", f"/v1/sandboxes/{box}/snapshots",
                          {"name": "canary"}).json
        self.addCleanup(self.i.api, "DELETE", f"/v1/snapshots/{snap['id']}")
        fork = self.i.api("POST", f"/v1/sandboxes/{box}/fork",
                          {"spec": {"canaries": []}}).json["sandboxes"][0]
        made = self.i.api("POST", "/v1/sandboxes",
                          {"snapshot": snap["id"], "canaries": ["OTHER"]}).json
        for heir in (fork["id"], made["id"]):
            self.assertEqual(self.i.sh(heir, "cat kept").out.strip(), word)
            r = self.get(heir, f"https://api.test/?q={word}")
            self.assertEqual(r.status, 403, heir)
            self.assertIn("AWS_SECRET", r.text)
        self.assertEqual(len(self.web.requests), 0)

    # -- signatures

    def sign(self, r, key, region, service):
        """The signature that a request should have, by AWS's rules."""
        auth = r.header("Authorization")
        names = re.search("SignedHeaders=([^,]+)", auth)[1].split(";")
        path, _, query = r.target.partition("?")
        pairs = sorted(x.partition("=")[::2] for x in query.split("&") if x)
        if service != "s3":
            path = urllib.parse.quote(path, safe="/~")
        canonical = "\n".join(
            [r.method, path, "&".join(f"{k}={v}" for k, v in pairs)] +
            [f"{n}:{' '.join(r.header(n).split())}" for n in names] +
            ["", ";".join(names), hashlib.sha256(r.body).hexdigest()])
        date = r.header("X-Amz-Date")
        scope = f"{date[:8]}/{region}/{service}/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", date, scope,
                          hashlib.sha256(canonical.encode()).hexdigest()])
        k = b"AWS4" + key.encode()
        for part in scope.split("/"):
            k = hmac.new(k, part.encode(), hashlib.sha256).digest()
        return hmac.new(k, text.encode(), hashlib.sha256).hexdigest()

    def test_aws(self):
        self.set("aws", "--host", "s3.test", "--aws", "AKIDEXAMPLE",
                 "--region", "eu-west-1", "--service", "s3")
        self.set("sqs", "--host", "other.test", "--aws", "AKIDEXAMPLE",
                 "--region", "eu-west-1", "--service", "sqs",
                 value=TOKEN + "\nsession-token-1")
        box = self.box("aws", "sqs")
        body = "line " * 2000
        for url, b in (("https://s3.test/a%20b/c?z=1&a=x%20y&a=%2F", None),
                       ("https://s3.test/put", body),
                       ("https://other.test/q%20/(1)?Action=Send", body)):
            self.get(box, url, "X-Amz-Meta-Note:  some   words", "Authorization: no",
                     "X-Amz-Security-Token: theirs", body=b or "")
            r = (self.s3 if "s3.test" in url else self.other).requests[-1]
            self.assertEqual(r.body, (b or "").encode())
            auth = r.header("Authorization")
            service = "s3" if "s3.test" in url else "sqs"
            self.assertIn("/AKIDEXAMPLE/"[1:], auth)
            self.assertTrue(auth.endswith(
                self.sign(r, TOKEN, "eu-west-1", service)), r)
            self.assertIn("x-amz-meta-note", auth)
            self.assertEqual(r.header("X-Amz-Security-Token"),
                             None if service == "s3" else "session-token-1")

    # -- tokens

    def test_oauth2_at_once_over(self):
        """A token that is over when it comes is used this once; and an interim
        answer is none."""
        n = [0]

        def endpoint(r):
            n[0] += 1
            return (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" +
                    answer(json.dumps({"access_token": f"short-token-{n[0]}",
                                       "expires_in": -1})))
        self.other.handler = endpoint
        self.addCleanup(setattr, self.other, "handler", None)
        self.set("short", "--host", "api.test", "--oauth2", "--token-url",
                 "https://other.test/token", "--client-id", "me",
                 value="client-secret\nrefresh-token")
        box = self.box("short")

        def used():
            self.get(box, "https://api.test/")
            return self.web.requests[-1].header("Authorization")
        self.assertEqual(used(), "Bearer short-token-1")
        wait_for("another one", lambda: used() == "Bearer short-token-2",
                 10 * SLOW)

    def test_oauth2(self):
        """Fetched once for all who wait, renewed in time, kept sealed."""
        asked, n = [], [0]

        def endpoint(r):
            form = dict(urllib.parse.parse_qsl(r.body.decode()))
            asked.append(form)
            if form.get("refresh_token") != f"refresh-token-{n[0]}":
                return answer('{"error":"invalid_grant"}', 400)
            n[0] += 1
            return answer(json.dumps({
                "access_token": f"access-token-{n[0]}", "token_type": "bearer",
                "refresh_token": f"refresh-token-{n[0]}",
                "expires_in": 2 if n[0] == 1 else 3600}))
        self.other.handler = endpoint
        self.set("oauth", "--host", "api.test", "--oauth2", "--token-url",
                 "https://other.test/token", "--client-id", "me",
                 value="client-secret\nrefresh-token-0")
        box = self.box("oauth")
        got = []

        def ask():
            got.append(self.get(box, "https://api.test/").json)
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(got), 4)
        self.assertEqual({r.header("Authorization") for r in self.web.requests},
                         {"Bearer access-token-1"})
        self.assertEqual(asked, [{
            "grant_type": "refresh_token", "client_id": "me",
            "client_secret": "client-secret",
            "refresh_token": "refresh-token-0"}])
        self.assertNotIn("access-token", json.dumps(got))
        time.sleep(1.1)  # half of its life
        self.get(box, "https://api.test/")
        self.assertEqual(self.web.requests[-1].header("Authorization"),
                         "Bearer access-token-2")
        # Another door starts with the refresh token that was the last.
        self.i.kill_role("carrel-gate")
        self.get(box, "https://api.test/")
        self.assertEqual(self.web.requests[-1].header("Authorization"),
                         "Bearer access-token-3")
        wait_for("three tokens in the log", lambda: [
            e["data"]["name"] for e in self.log("secret.token")
        ].count("oauth") == 3, 10 * SLOW)
        # One that nobody takes any more.
        self.set("oauth", "--host", "api.test", "--oauth2", "--token-url",
                 "https://other.test/token", "--client-id", "me",
                 value="client-secret\nold")
        r = self.get(box, "https://api.test/")
        self.assertEqual(r.status, 502)
        self.assertIn("invalid_grant", r.text)

    def test_token_from_a_private_place(self):
        """Only the operator may name one, as in policies."""
        key = self.i.api("POST", "/v1/keys", {
            "scope": "admin", "project": "inner"}).json["key"]
        self.i.cli("secret", "set", "inner", "--host", "api.test", "--oauth2",
                   "--token-url", "https://127.0.0.1:1/token", "--client-id",
                   "me", "--project", "inner", input="a\nb", check=0)
        with open(f"{self.i.dir}/copy.db", "wb") as f:
            f.write(self.i.api("POST", "/v1/backup").body)
        with sqlite3.connect(f.name) as db:
            (sealed,), = db.execute(
                "SELECT sealed FROM secrets WHERE name = 'inner'")
        put = {"kind": "oauth2", "hosts": ["api.test"], "user": "me",
               "token_url": "https://127.0.0.1:1/token", "private_url": True,
               "sealed": base64.b64encode(sealed).decode()}

        def code():
            return self.i.api("POST", "/v1/secrets/inner/code?project=inner"
                              ).json["message"]
        self.assertIn("refused", code())
        r = self.i.api("PUT", "/v1/secrets/inner", put,
                       {"Authorization": f"Bearer {key}"})
        self.assertEqual(r.status, 200, r)
        self.assertNotIn("private_url", r.json)
        self.assertIn("a loopback address", code())
        self.i.cli("secret", "rm", "inner", "--project", "inner", check=0)

    @harness.container_only("its way into a machine's network is the api")
    def test_token_renewed_without_the_api(self):
        """A refresh token is good for once: it must not get lost."""
        asked = []

        def endpoint(r):
            form = dict(urllib.parse.parse_qsl(r.body.decode()))
            asked.append(form.get("refresh_token"))
            return answer(json.dumps({
                "access_token": f"renewed-access-{len(asked)}",
                "refresh_token": f"renewed-{len(asked)}", "expires_in": 2}))
        self.other.handler = endpoint
        self.set("away", "--host", "api.test", "--oauth2", "--token-url",
                 "https://other.test/token", "--client-id", "me",
                 value="client-secret\nrenewed-0")
        box = self.box("away")
        w = self.inside(box)
        self.get(box, "https://api.test/")
        os.kill(self.i.daemon.pid, signal.SIGSTOP)  # nobody starts it again
        try:
            self.i.kill_role("carrel-api")
            time.sleep(1.1)  # half of the token's life
            s, _ = w.tunnel("api.test")
            t = w.tls(s, "api.test")
            w.get("/", fields=(("Host", "api.test"),), sock=t)
            t.close()
        finally:
            os.kill(self.i.daemon.pid, signal.SIGCONT)
        self.assertEqual(asked, ["renewed-0", "renewed-1"])
        time.sleep(1.1)
        wait_for("the api", lambda: self.i.cli("ls").returncode == 0,
                 20 * SLOW)
        self.get(box, "https://api.test/")
        self.i.kill_role("carrel-gate")
        self.get(box, "https://api.test/")
        self.assertEqual(asked, [f"renewed-{i}" for i in range(4)])

    def test_connect(self):
        """A person's consent: the code goes sealed to the door, which is the
        only one to see a token."""
        form = {}

        def endpoint(r):
            form.update(urllib.parse.parse_qsl(r.body.decode()))
            return answer('{"access_token": "consented-token"}')
        self.other.handler = endpoint
        file = f"{self.i.dir}/provider.conf"
        with open(file, "w") as f:
            f.write("# a provider\nauthorize_url = https://login.test/go?x=1\n"
                    "token_url = https://other.test/token\n"
                    "hosts = api.test\nscope = read write\n")
        p = self.i.popen("secret", "connect", "acme", "--file", file,
                         "--client-id", "me", stdin=subprocess.DEVNULL)
        self.addCleanup(self.i.cli, "secret", "rm", "acme")
        self.addCleanup(p.kill)
        line = next(x for x in iter(p.stderr.readline, b"")
                    if x.startswith(b"https://"))
        p.stderr.readline()
        url = urllib.parse.urlsplit(line.decode().strip())
        q = dict(urllib.parse.parse_qsl(url.query))
        self.assertEqual((url.netloc, q["x"], q["response_type"], q["scope"]),
                         ("login.test", "1", "code", "read write"))
        back = urllib.parse.urlsplit(q["redirect_uri"])

        def come_back(**more):
            c = http.client.HTTPConnection(back.hostname, back.port, timeout=20)
            c.request("GET", f"{back.path}?{urllib.parse.urlencode(more)}")
            r = c.getresponse()
            c.close()
            return r.status
        # Not the answer to our question.
        self.assertEqual(come_back(code="evil", state="x" * 43), 404)
        self.assertEqual(come_back(code="the-code", state=q["state"]), 200)
        out, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 0, err)
        self.assertIn(b"acme is connected", out)
        self.assertEqual((form["code"], form["client_id"], form["redirect_uri"]),
                         ("the-code", "me", q["redirect_uri"]))
        hashed = hashlib.sha256(form["code_verifier"].encode()).digest()
        self.assertEqual(base64.urlsafe_b64encode(hashed).decode().rstrip("="),
                         q["code_challenge"])
        box = self.box("acme")
        self.get(box, "https://api.test/")
        self.assertEqual(self.web.requests[-1].header("Authorization"),
                         "Bearer consented-token")

    # -- codes

    def test_codes(self):
        seed = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
        self.set("otp", "--totp", value=seed)
        box = self.box("otp")

        def code():
            mac = hmac.new(base64.b32decode(seed), int(time.time() // 30)
                           .to_bytes(8, "big"), "sha1").digest()
            at = mac[-1] & 15
            v = int.from_bytes(mac[at:at + 4], "big") & 0x7fffffff
            return f"{v % 10**6:06}"
        before = code()
        inside = self.get(box, "http://gate.carrel/totp/otp").text
        person = self.i.cli("secret", "code", "otp", check=0).out.strip()
        after = code()
        self.assertIn(inside.strip(), (before, after))
        self.assertIn(person, (before, after))
        self.assertEqual(
            self.get(box, "http://gate.carrel/totp/nobodys").status, 404)

    # -- where it is not

    def test_nowhere(self):
        value = "needle-4c1f" + os.urandom(12).hex()
        self.set("needle", "--host", "api.test", "--env", "NEEDLE", value=value)
        box = self.box("needle")
        self.i.sh(box, "sleep 1000 & sleep 1000 &")
        self.web.handler = echo
        self.get(box, "https://api.test/x")
        self.assertIn(value, self.web.requests[-1].header("Authorization"))
        # Inside: environments, memory, files.
        found = self.i.sh(
            box, "grep -rl needle-4c[1]f /proc/[0-9]*/environ "
                 "/proc/[0-9]*/cmdline /etc /run /home /tmp 2>/dev/null").out
        self.assertEqual(found, "")
        for pid in self.i.box_pids():
            self.assertFalse(self.in_memory(pid, value.encode()), pid)
        # In memory: the door's alone.
        have = {(role, pid) for role, pids in self.i.pids().items()
                for pid in pids if self.in_memory(pid, value.encode())}
        self.assertEqual([role for role, _ in have], ["carrel-gate"])
        # On disk: in no file; and what is sealed is gone with it.
        self.assertEqual(self.on_disk(value.encode()), [])
        sealed = self.sealed("needle")
        self.assertTrue(self.on_disk(sealed))
        self.i.cli("secret", "rm", "needle", check=0)
        self.assertEqual(self.on_disk(sealed), [])
        self.assertNotIn(value, self.i.log())

    def on_disk(self, needle):
        found = []
        for top, dirs, names in os.walk(self.i.dir):
            dirs[:] = [d for d in dirs if d != "bin"]
            for name in names:
                path = os.path.join(top, name)
                if name == "pool.img" or not os.path.isfile(path):
                    continue
                with open(path, "rb") as f:
                    if needle in f.read():
                        found.append(path)
        return found

    def sealed(self, name):
        """The value as the registry has it, from a copy of the file."""
        with tempfile.TemporaryDirectory() as d:
            for end in ("", "-wal"):
                shutil.copy(f"{self.i.state_dir}/registry/registry.db{end}", d)
            db = sqlite3.connect(f"{d}/registry.db")
            row = db.execute("SELECT sealed FROM secrets WHERE name = ?",
                             (name,)).fetchone()
            db.close()
        return row[0]

    @staticmethod
    def in_memory(pid, needle):
        try:
            with open(f"/proc/{pid}/maps") as f:
                maps = f.read().splitlines()
            mem = open(f"/proc/{pid}/mem", "rb", 0)
        except OSError:
            return False
        with mem:
            for line in maps:
                if "rw" not in line.split()[1]:
                    continue
                start, end = (int(x, 16) for x in line.split()[0].split("-"))
                try:
                    mem.seek(start)
                    if needle in mem.read(min(end - start, 64 << 20)):
                        return True
                except (OSError, ValueError):
                    continue
        return False


if __name__ == "__main__":
    harness.main()
