# suite: slow
# suite: microvm
"""The door of a microVM: no network device, one line to the host, and behind it
the same gate with the same policies, secrets and log. Connections are made by
processes inside."""

import contextlib
import hashlib
import json
import os
import secrets
import signal
import socket
import threading

import harness
from harness import SLOW, wait_for
from internet import InsideMachine, Internet, answer

RULES = [
    "allow * api.test",
    "allow GET https://deep.test/ok*",
    "deny * evil.test",
    "allow tcp db.test:5432",
]
# One shape for all: it is booted once.
VM = {"tier": "microvm", "cpus": 2, "memory": "128M", "disk": "512M"}
WAIT = 30 * SLOW


class Door(harness.Case):
    """One machine for all tests: what they change they mend."""

    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.CONF = {"vm_dir": harness.vm_dir(), **cls.net.conf}
        try:
            super().setUpClass()
        except BaseException:
            cls.net.close()
            raise
        try:
            cls.api = cls.net.web("api.test")
            cls.deep = cls.net.web("deep.test")
            cls.evil = cls.net.web("evil.test")
            cls.db = cls.net.tcp("db.test", 5432)
            cls.box = cls.i.create(rules=RULES, **VM)
            cls.inside = InsideMachine(cls.i, cls.box)
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        try:
            if hasattr(cls, "inside"):
                cls.inside.close()
            super().tearDownClass()
        finally:
            cls.net.close()

    def setUp(self):
        for w in (self.api, self.deep, self.evil):
            w.handler = w.raw = None
            w.requests.clear()

    def tearDown(self):
        pass  # the machine is the next one's, too

    def sh(self, script, timeout=60):
        return self.i.sh(self.box, script, timeout=timeout * SLOW)

    def get(self, url, *args, **kw):
        return self.inside.get(url, *args, **kw)

    def assertOver(self, s):
        with contextlib.suppress(ConnectionResetError):
            self.assertEqual(s.recv(9), b"")

    def relays(self):
        return [p for p in self.i.box_pids()
                if harness.read(f"/proc/{p}/comm", "") == "relay\n"]

    def relay(self):
        return wait_for("one relay", lambda: len(self.relays()) == 1 and
                        self.relays()[0], WAIT)

    def logged(self, kind):
        r = self.i.api("GET", f"/v1/sandboxes/{self.box}/log?type={kind}")
        return [json.loads(line)["data"] for line in r.body.splitlines()]

    def served(self):
        """It answers, sooner or later."""
        def ask():
            with contextlib.suppress(OSError):
                return self.get("http://api.test/again").status == 200
        wait_for("an answer from outside", ask, WAIT)

    # -- out

    def test_proxy(self):
        r = self.get("http://api.test/x?y=1", "POST", body=b"hello")
        self.assertEqual(r.status, 200, r)
        self.assertEqual((r.json["target"], r.json["body"]), ("/x?y=1", "hello"))
        r = self.get("http://evil.test/")
        self.assertEqual((r.status, r.reason), (403, "policy"), r)
        self.assertEqual(self.evil.requests, [])
        passed = wait_for("the log", lambda: [
            e for e in self.logged("egress.request") if e.get("path") == "/x"], WAIT)
        self.assertEqual((passed[0]["host"], passed[0]["method"]),
                         ("api.test", "POST"))
        wait_for("the refusal in the log", lambda: any(
            e.get("host") == "evil.test" for e in self.logged("egress.denied")),
            WAIT)

    def test_names(self):
        address = self.inside.resolve("api.test")
        self.assertRegex(address, r"^198\.1[89]\.")
        # Whoever it believes to ask, also over IPv6.
        for server in ("8.8.8.8", "2001:4860:4860::8888"):
            self.assertEqual(self.inside.resolve("api.test", server), address)
        self.assertIsNone(self.inside.resolve("nobody.test"))
        self.assertNotIn("nobody.test", self.net.asked())

    def test_transparent(self):
        """A program that knows nothing of proxies."""
        address = self.inside.resolve("api.test")
        r = self.inside.get("/plain", fields=[("Host", "api.test")],
                            sock=self.inside.connect(address, 80))
        self.assertEqual((r.status, r.json["tls"]), (200, False), r)
        with open(self.net.ca.cert) as f:  # not looked into: the server's own
            s = self.inside.tls(self.inside.connect(address, 443), "api.test",
                                ca=f.read())
        r = self.inside.get("/tls", fields=[("Host", "api.test")], sock=s)
        self.assertEqual((r.status, r.json["tls"]), (200, True), r)
        # Looked into, so that the path counts.
        address = self.inside.resolve("deep.test")
        s = self.inside.tls(self.inside.connect(address, 443), "deep.test")
        r = self.inside.get("/ok", fields=[("Host", "deep.test")], sock=s)
        self.assertEqual(r.status, 200, r)
        r = self.inside.get("/no", fields=[("Host", "deep.test")], sock=s)
        self.assertEqual((r.status, r.reason), (403, "policy"), r)
        self.assertEqual([q.target for q in self.deep.requests], ["/ok"])

    def test_raw_tcp(self):
        """Bytes both ways, and an end of one way is not the end of the other."""
        data = secrets.token_bytes(1 << 20)
        s = self.inside.connect(self.inside.resolve("db.test"), 5432)
        t = threading.Thread(target=lambda: (s.sendall(data),
                                             s.shutdown(socket.SHUT_WR)))
        t.start()
        got = b""
        while piece := s.recv(1 << 16):
            got += piece
        t.join()
        self.assertEqual(hashlib.sha256(got).digest(),
                         hashlib.sha256(data).digest())
        # Another port of it is nobody's.
        s = self.inside.connect(self.inside.resolve("db.test"), 5433)
        s.sendall(b"x")  # or they would wait for it
        self.assertOver(s)

    def test_a_secret(self):
        """Which moves its sockets to another process of the gate."""
        token = "s3cr3t-" + secrets.token_hex(8)
        self.i.cli("secret", "set", "tok", "--host", "api.test", "--env", "TOK",
                   input=token, check=0)
        try:
            r = self.i.api("PATCH", f"/v1/sandboxes/{self.box}",
                           '{"secrets": ["tok"]}')
            self.assertEqual(r.status, 200, r)
            s, r = self.inside.tunnel("api.test")
            self.assertEqual(r.status, 200, r)
            s = self.inside.tls(s, "api.test", ca=self.ca())
            self.inside.get("/user", fields=[("Host", "api.test")], sock=s)
            self.assertEqual(self.api.requests[-1].header("Authorization"),
                             f"Bearer {token}")
            self.assertNotIn(token, self.sh("env").out)
        finally:
            self.i.api("PATCH", f"/v1/sandboxes/{self.box}", '{"secrets": []}')
            self.i.cli("secret", "rm", "tok")

    def ca(self):
        return self.sh("cat /usr/local/share/ca-certificates/carrel.crt").out

    def test_a_hundred_at_once(self):
        """All open at the same time: nobody is answered before all are there."""
        there = threading.Barrier(100)

        def wait(request):
            there.wait(WAIT)
            return answer(b"all\n")
        self.api.handler = wait
        p = self.sh("for n in $(seq 100); do wget -q -O /tmp/o$n "
                    "http://api.test/$n & done; wait; cat /tmp/o* | sort | "
                    "uniq -c; rm /tmp/o*", 120)
        self.assertEqual(p.out.split(), ["100", "all"], p.err)
        self.assertEqual(sorted(int(r.target[1:]) for r in self.api.requests),
                         list(range(1, 101)))

    def test_a_reader_that_is_slow(self):
        """Megabytes that nobody reads inside: they wait outside, and nobody else
        waits for them."""
        sent = []

        def flood(c):
            piece = b"x" * 65536  # 512 MiB of it
            with contextlib.suppress(OSError):
                for _ in range(8192):
                    c.sendall(piece)
                    sent.append(len(piece))
        server = self.net.server("db.test", 5432 + 1000, raw=flood)
        self.i.api("PATCH", f"/v1/sandboxes/{self.box}", json.dumps(
            {"rules": [*RULES, "allow tcp db.test:6432"]}))
        try:
            address = self.inside.resolve("db.test")
            self.sh(f"((echo hi; sleep 300) | nc {address} 6432 | "
                    "(sleep 300; cat)) >/dev/null 2>&1 &")
            wait_for("the flood", lambda: sum(sent), WAIT)
            before = -1
            while before != sum(sent):  # until nothing moves any more
                before = sum(sent)
                for _ in range(5):
                    self.assertEqual(self.get("http://api.test/").status, 200)
            self.assertLess(sum(sent), 128 << 20)
            rss = next(int(x.split()[1]) for x in harness.read(
                f"/proc/{self.relay()}/status").splitlines()
                if x.startswith("VmRSS"))
            self.assertLess(rss, 4096)  # KiB
        finally:
            self.sh("killall sleep; killall nc")
            server.close()
            self.i.api("PATCH", f"/v1/sandboxes/{self.box}",
                       json.dumps({"rules": RULES}))

    def test_without_rules_there_is_no_way(self):
        """And none when somebody inside has the ports of the door."""
        box = self.i.create(**VM)
        try:
            p = self.i.sh(box, "for a in 203.0.113.10 127.0.0.1 2001:db8::5; do "
                          "nc -w 5 $a 80 </dev/null && echo out; "
                          "nc -w 5 $a 3128 </dev/null && echo proxy; done; "
                          "ls /sys/class/net; cat /proc/net/dev", timeout=60)
            self.assertNotIn("out", p.out)
            self.assertNotIn("proxy", p.out)
            self.assertNotIn("eth", p.out)
            self.i.sh(box, "nc -ll -p 3128 -e true >/dev/null 2>&1 </dev/null &")
            wait_for("a server inside", lambda: ":0C38" in self.i.sh(
                box, "cat /proc/net/tcp /proc/net/tcp6").out.upper(), WAIT)
            r = self.i.api("PATCH", f"/v1/sandboxes/{box}",
                           json.dumps({"rules": RULES}))
            self.assertNotEqual(r.status, 200, r)
            self.assertIn("taken", r.json["message"])
            self.i.sh(box, "killall nc; while pidof nc >/dev/null; do "
                      "sleep 0.05; done")
            r = self.i.api("PATCH", f"/v1/sandboxes/{box}",
                           json.dumps({"rules": RULES}))
            self.assertEqual(r.status, 200, r)
            inside = InsideMachine(self.i, box)
            self.assertEqual(inside.get("http://api.test/").status, 200)
            inside.close()
        finally:
            self.i.rm(box)

    # -- the same machine again

    def test_a_pause(self):
        """Its processes go on, and have a door; what they were connected to has
        not waited for them."""
        box = self.i.create(rules=RULES, **VM)
        try:
            inside = InsideMachine(self.i, box)
            address = inside.resolve("db.test")
            self.i.sh(box, f"((echo hi; sleep 300) | (nc {address} 5432; echo "
                      "over)) >/tmp/out 2>&1 </dev/null &")
            wait_for("an answer", lambda: self.i.sh(box, "cat /tmp/out").out ==
                     "hi\n", WAIT)
            for verb in ("pause", "resume"):
                r = self.i.api("POST", f"/v1/sandboxes/{box}/{verb}", "{}")
                self.assertEqual(r.status, 200, r)
            wait_for("its end", lambda: self.i.sh(box, "cat /tmp/out").out ==
                     "hi\nover\n", WAIT)
            self.assertEqual(inside.get("http://api.test/").status, 200)
            inside.close()
        finally:
            self.i.rm(box)

    def test_a_fork(self):
        """It goes on where its parent is, but not on its parent's
        connections."""
        s = self.waiting()
        r = self.i.api("POST", f"/v1/sandboxes/{self.box}/fork", '{"count": 1}')
        self.assertEqual(r.status, 201, r)
        box = r.json["sandboxes"][0]["id"]
        try:
            self.say(s)  # the parent's is as it was
            inside = InsideMachine(self.i, box)
            self.assertEqual(inside.get("http://api.test/fork").status, 200)
            self.assertIsNotNone(inside.resolve("api.test"))
            # Its copy of the process that held the connection has ended.
            wait_for("the end of the copied connection", lambda: self.i.sh(
                box, "netstat -tn | grep ':5432.*ESTABLISHED'").out == "", WAIT)
            inside.close()
        finally:
            self.i.rm(box)
            s.close()

    # -- in

    def test_ports(self):
        self.sh("mkdir -p /tmp/www; echo '<p>hi' > /tmp/www/index.html; "
                "head -c 3000000 /dev/urandom > /tmp/www/large; "
                "httpd -p 127.0.0.1:8000 -h /tmp/www; "
                "(nc -ll -p 7000 -e cat >/dev/null 2>&1 &)")
        path = f"/v1/sandboxes/{self.box}/ports"
        r = self.i.api("GET", f"{path}/8000/index.html")
        self.assertEqual((r.status, r.body), (200, b"<p>hi\n"), r)
        r = self.i.api("GET", f"{path}/8000/large")
        self.assertEqual(hashlib.md5(r.body).hexdigest(),
                         self.sh("md5sum < /tmp/www/large").out.split()[0])
        r = self.i.api("GET", f"{path}/8001/")
        self.assertEqual((r.status, r.json["error"]), (502, "nothing_listens"))
        data = secrets.token_bytes(200000)
        with self.tunnel(7000) as s:
            t = threading.Thread(target=lambda: (
                s.sendall(data), s.shutdown(socket.SHUT_WR)))
            t.start()
            got = b""
            while len(got) < len(data) and (piece := s.recv(65536)):
                got += piece
            t.join()
        self.assertEqual(got, data)
        self.sh("killall httpd; killall nc")

    def tunnel(self, port):
        """A connection to a port inside, as `carrel port` makes it."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(WAIT)
        s.connect(self.i.sock)
        s.sendall(f"POST /v1/sandboxes/{self.box}/tcp/{port} HTTP/1.1\r\n"
                  "Host: localhost\r\nConnection: Upgrade\r\n"
                  "Upgrade: carrel-tcp/1\r\nContent-Length: 0\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += s.recv(1)
        self.assertIn(b" 101 ", head)
        return s

    # -- who dies

    def waiting(self):
        """A connection that was answered once and is still open."""
        s = self.inside.connect(self.inside.resolve("db.test"), 5432)
        self.say(s)
        return s

    def say(self, s):
        s.sendall(b"still here")
        got = b""
        while len(got) < 10:
            piece = s.recv(10)
            self.assertTrue(piece, "the connection has ended")
            got += piece

    def test_the_gate_dies(self):
        s = self.waiting()
        relay = self.relay()
        for pid in self.i.pids()["carrel-gate"]:  # all of it
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.assertOver(s)
        self.served()
        self.assertEqual(self.relay(), relay)

    def test_the_relay_dies(self):
        s = self.waiting()
        old = self.relay()
        os.kill(old, signal.SIGKILL)
        # Who asks now waits for the next one.
        r = self.i.api("GET", f"/v1/sandboxes/{self.box}/ports/8001/")
        self.assertEqual((r.status, r.json["error"]), (502, "nothing_listens"))
        self.assertOver(s)
        self.served()
        self.assertNotEqual(self.relay(), old)
        self.assertIsNotNone(self.inside.resolve("api.test"))

    def test_the_warden_dies(self):
        """And nobody who is connected notices."""
        s = self.waiting()
        relay = self.relay()
        old = self.i.kill_role("carrel-warden")
        wait_for("another warden", lambda: self.i.pids().get(
            "carrel-warden", [old]) not in ([], [old]), WAIT)
        self.say(s)
        self.served()
        self.test_ports()
        self.assertEqual(self.relay(), relay)
        # The relay that the new one did not start is started again by it.
        os.kill(relay, signal.SIGKILL)
        self.assertOver(s)
        self.served()

    # -- what it is

    def test_the_relay_can_do_nothing(self):
        self.served()
        pid = self.relay()
        status = dict(x.split(":\t", 1) for x in harness.read(
            f"/proc/{pid}/status").splitlines() if ":\t" in x)
        for caps in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[caps], 16), 0, caps)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        self.assertEqual(status["Groups"].strip(), "")
        qemu = next(p for p in self.i.box_pids() if p != pid)
        mine = harness.read(f"/proc/{qemu}/status")
        self.assertNotIn(status["Uid"].split()[0], mine)
        self.assertNotEqual(status["Uid"].split()[0], "0")
        self.assertEqual(os.listdir(f"/proc/{pid}/root"), [])

        def ns(p, kind):
            return os.readlink(f"/proc/{p}/ns/{kind}")
        self.assertEqual(ns(pid, "net"), ns(qemu, "net"))
        for kind in ("net", "mnt", "pid", "ipc", "uts", "cgroup"):
            self.assertNotEqual(ns(pid, kind), ns("self", kind), kind)
        for kind in ("mnt", "pid", "ipc", "uts"):
            self.assertNotEqual(ns(pid, kind), ns(qemu, kind), kind)
        kinds = [os.readlink(f"/proc/{pid}/fd/{n}").split(":")[0]
                 for n in os.listdir(f"/proc/{pid}/fd") if n != "2"]
        self.assertLessEqual(set(kinds), {"socket", "anon_inode"})


if __name__ == "__main__":
    harness.main()
