# suite: sanitized
"""The sockets of a sandbox's door, as the warden makes them: what leads there,
and what stays the sandbox's own; and what the machine inside knows of it. What
the gate does with them is test_gate.py's."""

import contextlib
import ctypes
import errno
import os
import signal
import socket
import struct
import threading

import harness
from harness import SLOW, wait_for
from internet import Internet
from warden_link import EARLY, LAUNCH, Link, Refused, new_id

CLONE_NEWNET = 0x40000000
IPV6_PKTINFO = 50
libc = ctypes.CDLL(None, use_errno=True)


def socket_in(pid, family, kind):
    """A socket of the network that a process is in."""
    made = []

    def make():
        fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        if libc.setns(fd, CLONE_NEWNET) == 0:
            made.append(socket.socket(family, kind))
        os.close(fd)
    t = threading.Thread(target=make)  # a network is a thread's own
    t.start()
    t.join()
    made[0].settimeout(10 * SLOW)
    return made[0]


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.link = Link(self.i)
        self.addCleanup(self.link.close)

    def door(self, box, link=None):
        """Its sockets; closed at the end of the test, if not before."""
        socks, steer = (link or self.link).door(box)
        for s in socks:
            self.addCleanup(s.close)
        self.addCleanup(os.close, steer)
        return socks

    def pid(self, box):
        """Of its init, as the warden's record has it."""
        with open(f"{self.i.run_dir}/box/{box}/record", "rb") as f:
            return struct.unpack_from("<i", f.read(20), 16)[0]

    def accept(self, listener):
        def take():
            try:
                return listener.accept()[0]
            except BlockingIOError:
                return None
        s = wait_for("a connection", take, 10 * SLOW)
        self.addCleanup(s.close)
        s.settimeout(10 * SLOW)
        return s

    def code(self, box, address, port):
        """errno of a connection from inside."""
        s = socket_in(self.pid(box), family_of(address), socket.SOCK_STREAM)
        self.addCleanup(s.close)
        return s.connect_ex((address, port))


class Door(Case):
    def setUp(self):
        super().setUp()
        self.box = self.i.create(sudo=True)
        self.fds = self.door(self.box)
        self.proxy, self.dns, self.tcp, self.udp = self.fds

    def inside(self, address, kind=socket.SOCK_STREAM):
        s = socket_in(self.pid(self.box), family_of(address), kind)
        self.addCleanup(s.close)
        return s

    def test_every_address_and_port(self):
        for address, port in (("203.0.113.9", 80), ("8.8.8.8", 1), ("10.0.0.1", 22),
                              ("169.254.169.254", 80), ("192.168.1.1", 65535),
                              ("192.0.2.1", 1), ("198.18.0.1", 443), ("1.1.1.1", 53),
                              ("2001:db8::5", 443), ("fd00:ec2::254", 80)):
            with self.subTest(address=address, port=port):
                s = self.inside(address)
                s.connect((address, port))
                got = self.accept(self.tcp)
                want = address if ":" in address else f"::ffff:{address}"
                self.assertEqual(got.getsockname()[:2], (want, port))
                # Not its own address, or it could connect to itself.
                self.assertIn(got.getpeername()[0], ("::1", "::ffff:127.0.0.1"))
                s.sendall(b"hello")
                self.assertEqual(got.recv(9), b"hello")
                got.sendall(b"well")
                self.assertEqual(s.recv(9), b"well")

    def test_nobody_meets_itself(self):
        """With the same address and port on both sides it would."""
        for address, port in (("203.0.113.9", 50000), ("2001:db8::5", 50001)):
            s = self.inside(address)
            s.bind(("", port))
            s.connect((address, port))
            self.accept(self.tcp)

    def test_the_proxy(self):
        s = self.inside("127.0.0.1")
        s.connect(("127.0.0.1", 3128))
        self.assertEqual(self.accept(self.proxy).getsockname(), ("127.0.0.1", 3128))

    def test_loopback_stays_its_own(self):
        for address in ("127.0.0.1", "127.9.9.9", "::1"):
            own = self.inside(address)
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            own.bind((address, 80))
            own.listen()
            self.assertEqual(self.code(self.box, address, 80), 0)
            own.accept()[0].close()
            self.assertEqual(self.code(self.box, address, 81), errno.ECONNREFUSED)
            with self.assertRaises(BlockingIOError):
                self.tcp.accept()

    def test_a_server_on_every_address_is_reached_by_loopback_alone(self):
        own = self.inside("0.0.0.0")
        own.bind(("0.0.0.0", 8080))
        own.listen()
        self.assertEqual(self.code(self.box, "127.0.0.1", 8080), 0)
        self.assertEqual(own.accept()[0].close(), None)
        self.assertEqual(self.code(self.box, "203.0.113.9", 8080), 0)
        self.assertEqual(self.accept(self.tcp).getsockname()[0],
                         "::ffff:203.0.113.9")

    def test_names_are_asked_for(self):
        """The answer comes from where the question went."""
        for address in ("8.8.8.8", "2001:4860:4860::8888"):
            s = self.inside(address, socket.SOCK_DGRAM)
            s.connect((address, 53))
            s.send(b"who")
            wait_for("a question", lambda: self._peek(self.udp), 10 * SLOW)
            data, anc, _, peer = self.udp.recvmsg(100, 100)
            self.assertEqual(data, b"who")
            self.assertEqual([(a[0], a[1]) for a in anc],
                             [(socket.IPPROTO_IPV6, IPV6_PKTINFO)])
            to = socket.inet_ntop(socket.AF_INET6, anc[0][2][:16])
            self.assertIn(to, (address, "::ffff:" + address))
            self.udp.sendmsg([b"me"], [(socket.IPPROTO_IPV6, IPV6_PKTINFO,
                                        anc[0][2][:16] + bytes(4))], 0, peer)
            self.assertEqual(s.recv(9), b"me")
        s = self.inside("127.0.0.1", socket.SOCK_DGRAM)
        s.connect(("127.0.0.1", 53))
        s.send(b"local")
        wait_for("a question", lambda: self._peek(self.dns), 10 * SLOW)
        data, peer = self.dns.recvfrom(100)
        self.dns.sendto(b"yes", peer)
        self.assertEqual((data, s.recv(9)), (b"local", b"yes"))

    @staticmethod
    def _peek(s):
        try:
            return s.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return None

    def test_other_datagrams_are_refused_at_once(self):
        for address, port in (("8.8.8.8", 123), ("203.0.113.9", 443),
                              ("2001:db8::5", 443), ("127.0.0.1", 54)):
            s = self.inside(address, socket.SOCK_DGRAM)
            s.connect((address, port))
            s.send(b"x")
            with self.assertRaises(ConnectionRefusedError):
                s.recv(9)

    def test_multicast_goes_nowhere(self):
        for address in ("224.0.0.251", "255.255.255.255", "ff02::fb%lo"):
            s = self.inside(address, socket.SOCK_DGRAM)
            try:
                s.sendto(b"x", socket.getaddrinfo(
                    address.replace("%lo", "%1"), 53, type=socket.SOCK_DGRAM)[0][4])
            except OSError:
                pass
        self.assertEqual(self._peek(self.dns), None)

    def test_the_same_again(self):
        self.assertEqual([os.stat(s.fileno()).st_ino for s in self.door(self.box)],
                         [os.stat(s.fileno()).st_ino for s in self.fds])

    def test_root_inside_changes_nothing(self):
        for c in ("ip route del local default table local dev lo",
                  "ip route add 203.0.113.0/24 dev lo",
                  "ip -6 route flush table local", "ip link set lo down",
                  "ip addr add 203.0.113.9/32 dev lo",
                  "nc -l -p 3128 -s 127.0.0.1", "nc -l -p 3128",
                  "nc -l -p 1 -s 192.0.2.1",
                  "echo 1 >/proc/sys/net/ipv4/ip_forward"):
            got = self.i.sh(self.box, f"sudo timeout 5 sh -c '{c}'")
            self.assertNotIn(got.returncode, (0, 124, 143), c)
        self.assertEqual(self.code(self.box, "203.0.113.9", 80), 0)
        self.accept(self.tcp)

    def test_bad_requests(self):
        for box, code in (("", errno.EINVAL), ("../../etc", errno.EINVAL),
                          (new_id(), errno.ESRCH)):
            with self.assertRaises(Refused) as e:
                self.link.door(box)
            self.assertEqual(e.exception.code, code)

    def test_no_door_no_way(self):
        box = self.i.create()
        for address in ("203.0.113.9", "2001:db8::5"):
            self.assertIn(self.code(box, address, 80),
                          (errno.ENETUNREACH, errno.EADDRNOTAVAIL))


class Life(Case):
    def warden_fds(self):
        return len(os.listdir(f"/proc/{self.i.pids()['carrel-warden'][0]}/fd"))

    def test_before_the_agent_runs(self):
        """Nobody inside can be first."""
        image = self.i.api("GET", "/v1/images").json["images"][0]["id"]
        box = new_id()
        self.link.ask(LAUNCH, box, self.link.spec(image, flags=EARLY))
        self.assertEqual(list(self.link.answers(1)[0].values()), [0])
        self.door(box)
        self.link.kill(box)

    def test_taken_ports(self):
        box = self.i.create()
        self.i.sh(box, "nc -ll -p 3128 -e true >/dev/null 2>&1 </dev/null &")
        fds = self.warden_fds()
        wait_for("a server inside",
                 lambda: self.code(box, "127.0.0.1", 3128) == 0, 10 * SLOW)
        for _ in range(100):
            with self.assertRaises(Refused) as e:
                self.link.door(box)
            self.assertEqual(e.exception.code, errno.EADDRINUSE)
            self.assertIn("port 3128 is taken", str(e.exception))
        self.assertLess(self.warden_fds(), fds + 50)  # it has others, too

    def test_nothing_stays(self):
        def links():
            """Programs that it keeps attached."""
            pid = self.i.pids()["carrel-warden"][0]
            return [fd for fd in os.listdir(f"/proc/{pid}/fd")
                    if "bpf" in os.readlink(f"/proc/{pid}/fd/{fd}")]
        for _ in range(3):
            box = self.i.create()
            self.door(box)
            self.assertEqual(len(links()), 1)
            self.i.rm(box)
            self.assertEqual(links(), [])

    def test_after_a_crash_of_the_warden(self):
        box = self.i.create()
        socks, steer = self.link.door(box)
        self.i.kill_role("carrel-warden")

        def linked():
            try:
                return Link(self.i)
            except (OSError, EOFError):
                return None
        link = wait_for("the next warden", linked, 20 * SLOW)
        self.addCleanup(link.close)
        # Who has the sockets has the door.
        self.assertEqual(self.code(box, "203.0.113.9", 80), 0)
        with self.assertRaises(Refused) as e:
            link.door(box)
        self.assertEqual(e.exception.code, errno.EADDRINUSE)
        for s in socks:
            s.close()
        os.close(steer)
        # Nobody has: nothing goes anywhere.
        self.assertEqual(self.code(box, "203.0.113.9", 80), errno.ECONNREFUSED)
        tcp = self.door(box, link)[2]
        self.assertEqual(self.code(box, "203.0.113.9", 80), 0)
        self.accept(tcp)


class Inside(harness.Case):
    """What a process has, and what is written."""
    RULES = ["allow GET http://api.test/*"]
    BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
    ANCHOR = "/usr/local/share/ca-certificates/carrel.crt"

    def test_variables(self):
        box = self.i.create(rules=self.RULES, env={"PIP_CERT": "/mine", "A": "b"})
        p = self.i.cli("exec", "--env", "NO_PROXY=x", box, "env", check=0)
        env = dict(line.split("=", 1) for line in p.out.splitlines())
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            self.assertEqual(env[name], "http://127.0.0.1:3128")
        self.assertEqual(env["no_proxy"], "localhost,127.0.0.1,::1")
        for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
                     "GIT_SSL_CAINFO", "AWS_CA_BUNDLE"):
            self.assertEqual(env[name], self.BUNDLE)
        self.assertEqual((env["NODE_EXTRA_CA_CERTS"], env["NODE_USE_ENV_PROXY"]),
                         (self.ANCHOR, "1"))
        # The spec and the request come first.
        self.assertEqual((env["PIP_CERT"], env["NO_PROXY"], env["A"]),
                         ("/mine", "x", "b"))
        out = self.i.sh(self.i.create(), "env; ls " + self.ANCHOR).out
        self.assertNotRegex(out, "(?i)proxy|cert")

    def test_files(self):
        box = self.i.create(rules=self.RULES, sudo=True, files=[
            {"path": "/home/user/x", "content": "y"}])
        self.assertEqual(self.i.sh(box, "cat /etc/resolv.conf").out,
                         "nameserver 127.0.0.1\n")
        pem = self.i.sh(box, f"cat {self.ANCHOR}").out
        self.assertTrue(pem.startswith("-----BEGIN CERTIFICATE-----\n"))
        self.assertIn(pem, self.i.sh(box, f"cat {self.BUNDLE}").out)
        # The user cannot change what programs trust.
        p = self.i.sh(box, f"stat -c '%a %u' {self.ANCHOR} {self.BUNDLE} "
                      "/etc/resolv.conf")
        self.assertEqual(p.out, "644 0\n" * 3)

    def test_a_fork_is_as_before(self):
        def files(box):
            return self.i.cli("exec", box, "--", "md5sum", self.ANCHOR, self.BUNDLE,
                              "/etc/resolv.conf", check=0).out

        def fork():
            r = self.i.api("POST", f"/v1/sandboxes/{box}/fork", {})
            return r.json["sandboxes"][0]["id"]
        box = self.i.create(rules=self.RULES, sudo=True)
        before = files(box)
        self.assertEqual(files(fork()), before)
        # What the sandbox has broken since is whole again.
        self.i.cli("exec", box, "--", "sudo", "sh", "-c",
                   f"rm {self.ANCHOR}; echo broken > /etc/resolv.conf", check=0)
        self.assertEqual(files(fork()), before)


class Squatter(harness.Case):
    def test_who_has_the_port_harms_itself(self):
        box = self.i.create()
        self.i.sh(box, "nc -ll -p 3128 -e true >/dev/null 2>&1 </dev/null &")
        wait_for("a server inside", lambda: ":0C38" in
                 self.i.sh(box, "cat /proc/net/tcp /proc/net/tcp6").out.upper(),
                 10 * SLOW)
        p = self.i.cli("update", box, "--rule", "allow GET http://api.test/*")
        self.assertEqual(p.returncode, 1)
        self.assertIn("port 3128 is taken", p.err)
        # There is no way past the door that does not stand...
        p = self.i.sh(box, "env -i PATH=$PATH wget -qO- http://203.0.113.9/ 2>&1")
        self.assertIn("Network is unreachable", p.out)
        self.i.sh(box, "killall nc")
        # ...until it does.
        wait_for("the door", lambda: self.i.api("GET", f"/v1/sandboxes/{box}")
                 .json["door"]["up"], 20 * SLOW)


class Through(harness.Case):
    """Programs that know nothing of a door."""

    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.addClassCleanup(cls.net.close)
        cls.web, cls.db = cls.net.web("api.test"), cls.net.tcp("db.test", 5432)
        cls.CONF = cls.net.conf
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.box = self.i.create(rules=["allow GET http://api.test/*",
                                        "allow tcp db.test:5432"])

    def bare(self, script):
        """Without the variables."""
        return self.i.sh(self.box, f"env -i PATH=$PATH sh -c '{script}' 2>&1")

    def test_http(self):
        self.assertIn('"target": "/a"', self.bare("wget -qO- http://api.test/a").out)
        self.assertIn("bad address", self.bare("wget -qO- http://evil.test/a").out)
        p = self.bare("wget -qO- http://203.0.113.77/a")
        self.assertIn("403", p.out)
        self.assertNotIn("evil.test", self.net.asked())

    def test_tcp(self):
        self.assertEqual(self.bare("(echo one; sleep 0.2) | nc db.test 5432").out,
                         "one\n")
        # All is said before the way is there.
        self.assertEqual(self.bare("echo two | nc db.test 5432").out, "two\n")
        self.assertEqual(self.bare("echo no | nc api.test 5432").out, "")
        self.assertEqual(self.db.received, b"one\ntwo\n")

    def test_after_a_crash_of_the_gate(self):
        """The sockets are the same ones: what connects meanwhile waits."""
        for pid in self.i.pids()["carrel-gate"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.assertIn('"target": "/b"',
                      self.bare("timeout 60 wget -qO- http://api.test/b").out)


if __name__ == "__main__":
    harness.main()
