# suite: both
# suite: npm
"""What sandboxes of the E2B SDKs reach: a small internet, and the client asks
this file what a program inside gets, and what servers outside saw."""

import http.server
import json
import ssl
import threading
import urllib.parse

import clients
import harness
from harness import wait_for
from internet import Inside, Internet


class Helper(http.server.BaseHTTPRequestHandler):
    """/inside?box=&url=, /outside?host=, /self?box=&path=&token="""
    protocol_version = "HTTP/1.1"
    case = None

    def do_GET(self):
        at = urllib.parse.urlsplit(self.path)
        q = dict(urllib.parse.parse_qsl(at.query))
        try:
            out = getattr(self.case, at.path.strip("/"))(**q)
        except (OSError, AssertionError, ssl.SSLError, StopIteration) as e:
            out = {"error": repr(e)}
        raw = json.dumps(out).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args):
        pass


@clients.cases("e2b_network.test.mjs", variants=["e2b"])
class Network(clients.Case):
    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.webs = {n: cls.net.web(n) for n in
                    ("api.test", "a.api.test", "other.test", "third.test")}
        cls.raw = cls.net.tcp("other.test", 5432)
        # One that its owner has pointed at somebody else's address.
        cls.net.names.table["alias.test"] = [cls.webs["other.test"].address]
        cls.CONF = dict(cls.net.conf)
        cls.held = {}
        super().setUpClass()
        Helper.case = cls
        cls.helper = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Helper)
        threading.Thread(target=cls.helper.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.helper.shutdown()
        cls.helper.server_close()
        super().tearDownClass()
        cls.net.close()

    def environment(self):
        port = self.helper.server_address[1]
        addresses = {n: w.address for n, w in self.webs.items()}
        admin = self.i.cli("key", "create", "--name", "admin", "--scope",
                           "admin", check=0).out.strip()
        return {**super().environment(), "ADMIN_KEY": admin,
                "HELPER": f"http://127.0.0.1:{port}",
                "ADDRESSES": json.dumps(addresses)}

    # --- for the client ---

    @classmethod
    def inside(cls, box, url):
        """A request of a program inside that knows proxies."""
        w = Inside(cls.i, box)
        try:
            if url.startswith("http:"):
                r = w.get(url)
            else:
                host, _, path = url[len("https://"):].partition("/")
                s, r = w.tunnel(host)
                if r.status == 200:
                    with open(cls.net.ca.cert) as f:
                        s = w.tls(s, host, ca=w.ca + f.read())
                    with s:
                        r = w.get("/" + path, "GET", [("Host", host)], sock=s)
            if r.status == 0:
                raise ConnectionResetError("it ended")
            return {"status": r.status, "denied": r.reason, "text": r.text}
        finally:
            w.close()

    @classmethod
    def hold(cls, box, url):
        """A request on a connection that stays; the same one each time."""
        if box not in cls.held:
            w = Inside(cls.i, box)
            cls.held[box] = w, w.connect()
            cls.addClassCleanup(w.close)
        w, s = cls.held[box]
        r = w.get(url, sock=s)
        return {"status": r.status}

    @classmethod
    def connect(cls, box, host, port):
        """Bytes to a server that echoes, past the proxy."""
        w = Inside(cls.i, box)
        try:
            with w.connect(host, int(port), timeout=10) as s:
                s.sendall(b"\0hello")
                got = s.recv(100)
                if not got:
                    raise ConnectionResetError("it ended")
                return {"text": got.decode()[1:]}
        finally:
            w.close()

    @classmethod
    def resolve(cls, box, name):
        w = Inside(cls.i, box)
        try:
            return {"address": w.resolve(name)}
        finally:
            w.close()

    @classmethod
    def outside(cls, host):
        """The fields of the last request that came there."""
        seen = cls.webs[host].requests
        return {"n": len(seen), "fields": seen[-1].fields if seen else []}

    @classmethod
    def me(cls, box, path, token="", method="GET"):
        """What port 49983 says to a program inside."""
        w = Inside(cls.i, box)
        try:
            with w.connect("127.0.0.1", 49983) as s:
                r = w.get(path, method, [("Host", "localhost:49983")] +
                          ([("X-Access-Token", token)] if token else []),
                          sock=s)
                return {"status": r.status, "text": r.text}
        finally:
            w.close()

    @classmethod
    def secrets(cls):
        r = cls.i.api("GET", "/v1/secrets")
        return {"names": [s["name"] for s in r.json["secrets"]]}

    # --- without a client ---

    def own(self):
        return [n for n in self.secrets()["names"] if n.startswith("own-")]

    def test_roles_die(self):
        """Headers and port 49983 outlive the gate and the api; what nobody
        has is gone after a start."""
        rules = {"api.test": [{"transform": {"headers": {
            "X-Key": "value-that-stays"}}}]}
        box = self.i.api("POST", "/v2/sandboxes", {
            "templateID": "base", "envVars": {"WORD": "one"},
            "network": {"rules": rules}}).json
        key = box["envdAccessToken"]
        box = box["sandboxID"]
        mine = self.own()
        self.i.cli("secret", "set", "own-" + "0f" * 16, "--host", "api.test",
                   input="value-of-nobody", check=0)

        def works():
            self.assertEqual(
                self.inside(box, "https://api.test/")["status"], 200)
            self.assertIn(["X-Key", "value-that-stays"],
                          [list(f) for f in self.outside("api.test")["fields"]])
            r = self.me(box, "/envs", key)
            self.assertEqual((r["status"], json.loads(r["text"])["WORD"]),
                             (200, "one"))
        works()
        self.i.kill_role("carrel-gate")
        works()
        pid = self.i.kill_role("carrel-api")
        wait_for("another api", lambda: pid not in
                 self.i.pids().get("carrel-api", [pid]))
        self.i.wait_ready()
        self.assertEqual(self.own(), mine)
        works()
        self.i.api("DELETE", f"/sandboxes/{box}")
        wait_for("its secrets end with it",
                 lambda: not set(mine) & set(self.own()))


if __name__ == "__main__":
    harness.main()
