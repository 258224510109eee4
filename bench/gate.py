#!/usr/bin/python3
"""The gate against other proxies, on the same upstream and in the same run:
squid, plain and with ssl-bump, and mitmproxy. `bench/run gate` starts it in a
network and a mount namespace of its own; the world outside is a second network
namespace, with nginx in it."""

import contextlib
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(TOP, "tests/e2e"), os.path.join(TOP, "bench")]

import harness  # noqa: E402
import streams  # noqa: E402

HOST, OUTSIDE, INSIDE = "up.test", "203.0.113.10", "203.0.113.1"
STREAM_PORT = 9000
CONNS, SECONDS, ROUNDS = 32, 3, 3
GB = 1000  # MB
IDLE = 2000
LOAD = os.path.join(harness.BUILD, "bench/load")


def run(*argv, **kw):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **kw)


class World:
    """What is outside: a namespace with nginx and a server that only sends."""

    def __init__(self, top):
        self.top, self.children = top, []
        self.holder = self.start(["unshare", "-n", "sleep", "infinity"])
        harness.wait_for("a network outside", lambda: os.readlink(
            f"/proc/{self.holder.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
        pid = str(self.holder.pid)
        run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1",
            "netns", pid)
        run("ip", "addr", "add", f"{INSIDE}/24", "dev", "v0")
        run("ip", "link", "set", "v0", "up")
        for argv in (["link", "set", "lo", "up"], ["link", "set", "v1", "up"],
                     ["addr", "add", f"{OUTSIDE}/24", "dev", "v1"]):
            run("nsenter", "-t", pid, "-n", "ip", *argv)
        self.certificates()
        self.nginx()
        self.sender()

    def start(self, argv, **kw):
        p = subprocess.Popen(argv, start_new_session=True, **kw)
        self.children.append(p)
        return p

    def outside(self, argv, **kw):
        return self.start(["nsenter", "-t", str(self.holder.pid), "-n", *argv], **kw)

    def certificates(self):
        t = self.top
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{t}/ca.key", "-out",
            f"{t}/ca.pem", "-subj", "/CN=Bench", "-days", "3")
        run("openssl", "req", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{t}/up.key", "-out",
            f"{t}/up.csr", "-subj", f"/CN={HOST}")
        with open(f"{t}/ext", "w") as f:
            f.write(f"subjectAltName=DNS:{HOST}\n")
        run("openssl", "x509", "-req", "-in", f"{t}/up.csr", "-CA", f"{t}/ca.pem",
            "-CAkey", f"{t}/ca.key", "-CAcreateserial", "-days", "2", "-extfile",
            f"{t}/ext", "-out", f"{t}/up.pem")

    def nginx(self):
        conf = os.path.join(self.top, "nginx.conf")
        with open(conf, "w") as f:
            f.write(f"""daemon off; worker_processes 1; pid {self.top}/nginx.pid;
error_log {self.top}/nginx.err; events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 100000000; keepalive_timeout 3600;
 client_body_temp_path {self.top}/t1; proxy_temp_path {self.top}/t2;
 fastcgi_temp_path {self.top}/t3; uwsgi_temp_path {self.top}/t4; scgi_temp_path {self.top}/t5;
 server {{ listen 80; listen 443 ssl; ssl_certificate {self.top}/up.pem;
  ssl_certificate_key {self.top}/up.key; location / {{ return 200 "{'x' * 400}"; }} }} }}
""")
        self.outside([streams.nginx_program(), "-c", conf, "-e", f"{self.top}/nginx.err"])
        self.until_open(80)

    def sender(self):
        code = f"""
import os, socket
f = os.memfd_create("zeros"); os.truncate(f, 64 << 20)
s = socket.create_server(("{OUTSIDE}", {STREAM_PORT}), backlog=16)
while True:
    c, _ = s.accept()
    try:
        while os.sendfile(c.fileno(), f, 0, 64 << 20): pass
    except OSError: pass
    c.close()
"""
        self.outside([sys.executable, "-c", code])
        self.until_open(STREAM_PORT)

    def until_open(self, port):
        def try_it():
            with contextlib.suppress(OSError):
                socket.create_connection((OUTSIDE, port), 1).close()
                return True
            return False
        harness.wait_for(f"port {port} outside", try_it, 30)

    def stop(self):
        for p in reversed(self.children):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(p.pid, signal.SIGKILL)
            p.wait()


class Squid:
    """One worker, no cache, its access log on, as the gate's is."""

    def __init__(self, world, bump):
        self.dir = os.path.join(world.top, "bump" if bump else "squid")
        os.mkdir(self.dir)
        self.port = 3129 if bump else 3127
        pem = f"{self.dir}/ca.pem"
        with open(pem, "w") as f:
            f.write(harness.read(f"{world.top}/ca.pem") +
                    harness.read(f"{world.top}/ca.key"))
        crtd = "/usr/lib/squid/security_file_certgen"
        if bump:
            run(crtd, "-c", "-s", f"{self.dir}/db", "-M", "4MB")
        listen = f"http_port 127.0.0.1:{self.port}"
        if bump:
            listen += (f" ssl-bump cert={pem} generate-host-certificates=on "
                       "dynamic_cert_mem_cache_size=4MB")
        with open(f"{self.dir}/squid.conf", "w") as f:
            f.write(f"""{listen}
pid_filename none
cache deny all
cache_mem 8 MB
access_log stdio:{self.dir}/access.log
cache_log {self.dir}/cache.log
coredump_dir {self.dir}
netdb_filename none
hosts_file /etc/hosts
dns_nameservers 127.0.0.1
http_access allow all
max_filedescriptors 16384
shutdown_lifetime 0 seconds
""" + (f"""sslcrtd_program {crtd} -s {self.dir}/db -M 4MB
sslcrtd_children 1
tls_outgoing_options cafile={world.top}/ca.pem
ssl_bump bump all
""" if bump else ""))
        run("chown", "-R", "proxy", self.dir)
        world.start(["squid", "-N", "-f", f"{self.dir}/squid.conf"],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until_listening(self.port)


class Mitm:
    port = 3130

    def __init__(self, world):
        world.start(["mitmdump", "-q", "-p", str(self.port), "--listen-host",
                     "127.0.0.1", "--set", f"confdir={world.top}/mitm", "--set",
                     f"ssl_verify_upstream_trusted_ca={world.top}/ca.pem"],
                    env={**os.environ, "HOME": world.top},
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until_listening(self.port, 60)


def until_listening(port, seconds=30):
    def try_it():
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        return False
    harness.wait_for(f"a proxy on port {port}", try_it, seconds)


class Relay:
    """The least a relay can do: build/bench/relay, two sockets and a pipe."""
    port = 3131

    def __init__(self, world):
        world.start([os.path.join(harness.BUILD, "bench/relay"), str(self.port),
                     OUTSIDE, str(STREAM_PORT)])
        until_listening(self.port)


class Gate:
    """Sandboxes of one instance, each with a policy; asked from within their
    networks."""
    port = 3128

    def __init__(self, instance):
        self.i, self.net = instance, {}

    def box(self, name, *rules):
        self.i.create(name=name, rules=list(rules))
        net = self.i.sh(name, "readlink /proc/self/ns/net").out.strip()
        for pid in self.i.box_pids():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/net") == net:
                    self.net[name] = ["nsenter", "-t", str(pid), "-n"]
                    return
        raise RuntimeError(f"no process of {name}")


def numbers(argv):
    out = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [float(x) for x in out.split()]


def rate(argv, mode, port, to, conns=CONNS):
    n, seconds, p50 = numbers([*argv, LOAD, mode, str(port), HOST, str(to),
                               str(conns), str(SECONDS * 1000)])
    return n / seconds, p50


def in_turns(cases):
    got = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, fn in cases.items():
            got[name].append(fn())
    return got


def small_requests(say, judge, gate, squid, bump):
    plain = in_turns({
        "gate": lambda: rate(gate.net["plain"], "http", 3128, 80)[0],
        "squid": lambda: rate([], "http", squid.port, 80)[0],
    })
    tls = in_turns({
        "gate": lambda: rate(gate.net["look"], "https", 3128, 443)[0],
        "squid": lambda: rate([], "https", bump.port, 443)[0],
    })
    med = {k: statistics.median(v) for k, v in plain.items()}
    med_tls = {k: statistics.median(v) for k, v in tls.items()}
    say(f"\nSmall requests per second, {CONNS} connections that stay:")
    say(f"  {'':12}{'plain':>10}{'inspected':>12}")
    say(f"  {'gate':12}{med['gate']:10.0f}{med_tls['gate']:12.0f}")
    say(f"  {'squid':12}{med['squid']:10.0f}{med_tls['squid']:12.0f}")
    judge("plain requests, of squid's", med["gate"] / med["squid"], 1.5, least=True)
    judge("inspected requests, of squid's with ssl-bump",
          med_tls["gate"] / med_tls["squid"], 1.2, least=True)
    return med["gate"], med_tls["gate"]


def against_mitmproxy(say, judge, world, plain, tls):
    """`plain` and `tls`: the gate's requests per second."""
    if not shutil.which("mitmdump"):
        say("  mitmproxy: not installed (Debian 13 does not have it)")
        return
    port = Mitm(world).port
    slow = {"plain": rate([], "http", port, 80, 8)[0],
            "tls": rate([], "https", port, 443, 8)[0]}
    say(f"  {'mitmproxy':12}{slow['plain']:10.0f}{slow['tls']:12.0f}")
    judge("plain requests, of mitmproxy's", plain / slow["plain"], 10, least=True)
    judge("inspected requests, of mitmproxy's", tls / slow["tls"], 10, least=True)


def latency(say, judge, gate, squid):
    direct = [LOAD, "direct", "0", OUTSIDE, "80", "1", "1000"]
    got = in_turns({
        "direct": lambda: numbers(direct)[2],
        "gate": lambda: rate(gate.net["plain"], "http", 3128, 80, 1)[1],
        "squid": lambda: rate([], "http", squid.port, 80, 1)[1],
    })
    med = {k: statistics.median(v) for k, v in got.items()}
    say("\nOne request after the other, median in microseconds:")
    for name, us in med.items():
        say(f"  {name:12}{us:8.1f}")
    judge("latency that is added, of what squid adds",
          (med["gate"] - med["direct"]) / (med["squid"] - med["direct"]), 1.0)


def throughput(say, judge, gate, relay):
    def speed(argv, mode, port, host):
        n, seconds = numbers([*argv, LOAD, mode, str(port), host,
                              str(STREAM_PORT if mode == "tunnel" else port), "1",
                              str(GB)])
        return n / seconds
    got = in_turns({
        "gate": lambda: speed(gate.net["tunnel"], "tunnel", 3128, HOST),
        "relay": lambda: speed([], "stream", relay.port, "127.0.0.1"),
    })
    med = {k: statistics.median(v) for k, v in got.items()}
    say("\n1 GB through a tunnel:")
    for name, bps in med.items():
        say(f"  {name:12}{bps / 1e9:8.2f} GB/s")
    judge("a tunnel, of a bare splice relay", med["gate"] / med["relay"], 0.85,
          least=True)


def doors_kib(i):
    total = 0
    for pid in i.pids().get("carrel-gate", []):
        for line in harness.read(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total


def idle(say, judge, gate):
    say(f"\n{IDLE} connections in which nothing happens:")
    for mode, box, most, name, port in (("idle", "tunnel", 12, "tunnelled", STREAM_PORT),
                                        ("idles", "look", 60, "inspected", 443)):
        port = 80 if mode == "idle" else port
        before = doors_kib(gate.i)
        # One sandbox has at most 1,024 connections.
        loads = [subprocess.Popen(
            [*gate.net[f"{box}{n}"], LOAD, mode, "3128", HOST, str(port),
             str(IDLE // 2), "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for n in ("", "2")]
        try:
            for p in loads:
                if p.stdout.readline() != b"ready\n":
                    judge(f"KiB of each, {name}", None, most, "KiB")
                    break
            else:
                time.sleep(2)
                each = (doors_kib(gate.i) - before) / IDLE
                judge(f"memory of each, {name}", each, most, "KiB")
        finally:
            for p in loads:
                p.stdin.close()
                p.wait()


def gate_part(say, judge):
    top = tempfile.mkdtemp(prefix="carrel-gate-bench-")
    os.chmod(top, 0o755)
    with open(f"{top}/hosts", "w") as f:
        f.write(f"127.0.0.1 localhost\n{OUTSIDE} {HOST}\n")
    run("mount", "--bind", f"{top}/hosts", "/etc/hosts")
    world = World(top)
    try:
        squid, bump = Squid(world, False), Squid(world, True)
        relay = Relay(world)
        with harness.Instance(spares=0, log_level="info", gate_ca=f"{top}/ca.pem",
                              resolver=OUTSIDE) as i:
            gate = Gate(i)
            gate.box("plain", f"allow * http://{HOST}")
            for n in ("", "2"):
                gate.box("look" + n, f"allow GET https://{HOST}/*")
                gate.box("tunnel" + n, f"allow * https://{HOST}",
                         f"allow tcp {HOST}:{STREAM_PORT}", f"allow tcp {HOST}:80")
            got = small_requests(say, judge, gate, squid, bump)
            against_mitmproxy(say, judge, world, *got)
            latency(say, judge, gate, squid)
            throughput(say, judge, gate, relay)
            idle(say, judge, gate)
    finally:
        world.stop()
        run("umount", "/etc/hosts")
        shutil.rmtree(top)


if __name__ == "__main__":
    def tell(text=""):
        print(text, flush=True)

    def judge_line(what, value, bound, unit="x", least=False):
        # Read by bench/run.
        print(f"JUDGE\t{what}\t{'' if value is None else value}\t{bound}\t{unit}\t"
              f"{int(least)}", flush=True)

    gate_part(tell, judge_line)
