"""How fast bytes move: output, files, many at once, plain requests."""

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

import harness

GIB = 1 << 30
TIMES = 5
STREAMS = 500
WRK_SECONDS = 5


def seconds(argv, **kw):
    began = time.monotonic()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, **kw)
    return time.monotonic() - began


def in_turns(cases, times=TIMES):
    """{name: median seconds}; the cases take turns, after a round unmeasured."""
    took = {name: [] for name in cases}
    for n in range(times + 1):
        for name, fn in cases.items():
            t = fn()
            if n:
                took[name].append(t)
    return {name: statistics.median(t) for name, t in took.items()}


def output(say, judge, i, box):
    n = 2 * GIB
    # The same size of writes, whichever dd it is.
    made = ["dd", "if=/dev/zero", "bs=128k", f"count={n >> 17}"]
    null = subprocess.DEVNULL
    got = in_turns({
        "carrel exec": lambda: seconds(
            i.cli_argv("exec", "-n", box, "--", *made), env=i.env(),
            stdout=null, stderr=null),
        "cat | cat": lambda: seconds(
            ["sh", "-c", " ".join(made) + " | cat | cat"], stdout=null,
            stderr=null),
    }, 3)
    say("\n2 GiB of output:")
    for name, t in got.items():
        say(f"  {name:14} {n / t / 1e9:6.2f} GB/s")
    judge("the time of `cat | cat`, of that of `carrel exec`",
          got["cat | cat"] / got["carrel exec"], 1.0, least=True)


def curl(i, *args):
    return ["curl", "-sSf", "--unix-socket", i.sock, "-o", "/dev/null", *args]


def files(say, judge, i, box):
    """The copy is made in the pool, where the sandbox's disk is."""
    scratch = tempfile.mkdtemp(prefix="bench-", dir=i.pool())
    src = os.path.join(scratch, "src")
    with open(src, "wb") as f:
        for _ in range(GIB >> 20):
            f.write(os.urandom(1 << 20))
        os.fsync(f.fileno())
    url = f"http://localhost/v1/sandboxes/{box}/files/content?path=/home/user/f"

    def copy():
        dst = os.path.join(scratch, "dst")
        return seconds(["sh", "-c", f"cp --reflink=never {src} {dst} && "
                        f"sync {dst}; rm {dst}"])

    got = in_turns({
        "up": lambda: seconds(curl(i, "-T", src, url)),
        "down": lambda: seconds(curl(i, url)),
        "copy": copy,
    }, 3)
    shutil.rmtree(scratch)
    say("\nA file of 1 GiB:")
    for name, t in got.items():
        say(f"  {name:14} {GIB / t / 1e6:6.0f} MB/s")
    for way in ("up", "down"):
        judge(f"the time of `cp` and fsync, of that of {way} over HTTP",
              got["copy"] / got[way], 0.5, least=True)


def many(say, judge, i, box, tool):
    p = subprocess.run([tool("execs"), i.sock, box, str(STREAMS), "sh", "-c",
                        "head -c 65536 /dev/zero"], text=True,
                       stdout=subprocess.PIPE)
    say(f"\n{STREAMS} processes at once in one sandbox, 64 KiB from each:")
    judge("failures", 0 if p.returncode == 0 else 1, 0, unit="")
    if p.returncode == 0:
        took = sorted(float(x) for x in p.stdout.split("bytes")[0].split())
        p50, p99 = took[len(took) // 2], took[len(took) * 99 // 100]
        say(f"  median {p50 / 1e3:.0f} ms, p99 {p99 / 1e3:.0f} ms")
        judge("p99, of the median", p99 / p50, 5)
    else:
        judge("p99, of the median", None, 5)


def kept_alive(say, i, box):
    """One connection, one request after the other."""
    c = harness.UnixHTTP(i.sock)
    body = json.dumps({"argv": ["true"]})
    took = {"run": [], "fork": []}
    for _ in range(200):
        t = time.monotonic()
        c.request("POST", f"/v1/sandboxes/{box}/run", body,
                  {"Content-Type": "application/json"})
        r = c.getresponse()
        if r.status != 200:
            raise RuntimeError(f"run: {r.status} {r.read()}")
        r.read()
        took["run"].append(time.monotonic() - t)
        t = time.monotonic()
        pid = os.posix_spawn("/bin/true", ["true"], {})
        os.waitpid(pid, 0)
        took["fork"].append(time.monotonic() - t)
    c.close()
    run, fork = (statistics.median(t) for t in took.values())
    say("\n`true` over a connection that is kept, POST .../run:")
    say(f"  {run * 1e3:.2f} ms, {run / fork:.2f} x fork and exec")


def wrk(url, *headers):
    argv = ["wrk", "-t1", "-c16", f"-d{WRK_SECONDS}s"]
    for h in headers:
        argv += ["-H", h]
    out = subprocess.run([*argv, url], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    if "Non-2xx" in out:
        raise RuntimeError(f"wrk: {url}: {out}")
    return float(out.split("Requests/sec:")[1].split()[0])


NGINX = """
worker_processes 1; daemon off; pid %(dir)s/pid; error_log %(dir)s/log;
events { worker_connections 256; }
http { access_log off; client_body_temp_path %(dir)s; proxy_temp_path %(dir)s;
fastcgi_temp_path %(dir)s; uwsgi_temp_path %(dir)s; scgi_temp_path %(dir)s;
keepalive_requests 1000000000; default_type application/json;
server { listen 127.0.0.1:%(port)d; root %(dir)s/www; } }
"""


def nginx_program():
    """Unpacked, not installed: its package would start a server."""
    where = os.path.join(harness.BUILD, "bench/nginx")
    program = f"{where}/usr/sbin/nginx"
    if not os.path.exists(program):
        os.makedirs(where, exist_ok=True)
        subprocess.run("apt-get download -q nginx && dpkg -x nginx_*.deb .",
                       shell=True, check=True, cwd=where,
                       stdout=subprocess.DEVNULL)
    return program


class Nginx:
    """Serves one file."""

    def __init__(self, port, content):
        self.dir = tempfile.mkdtemp(prefix="carrel-nginx-")
        os.chmod(self.dir, 0o755)
        os.mkdir(f"{self.dir}/www", 0o755)
        with open(f"{self.dir}/www/f", "wb") as f:
            f.write(content)
        with open(f"{self.dir}/conf", "w") as f:
            f.write(NGINX % {"dir": self.dir, "port": port})
        self.p = subprocess.Popen([nginx_program(), "-c",
                                   f"{self.dir}/conf"],
                                  stderr=subprocess.DEVNULL)
        time.sleep(0.5)

    def stop(self):
        self.p.terminate()
        self.p.wait()
        shutil.rmtree(self.dir)


def requests(say, judge, i, box, port):
    key = i.cli("key", "create", "--name", "bench", "--scope", "read").out
    auth = f"Authorization: Bearer {key.strip()}"
    body = i.api("GET", f"/v1/sandboxes/{box}").body
    nginx = Nginx(port + 1, body)
    rates = {"carrel": [], "nginx": []}
    try:
        for _ in range(3):
            rates["carrel"].append(
                wrk(f"http://127.0.0.1:{port}/v1/sandboxes/{box}", auth))
            rates["nginx"].append(wrk(f"http://127.0.0.1:{port + 1}/f", auth))
    finally:
        nginx.stop()
    got = {name: statistics.median(r) for name, r in rates.items()}
    say(f"\nGET of a sandbox, {len(body)} bytes, wrk with 16 connections:")
    for name, rate in got.items():
        say(f"  {name:8} {rate:8.0f} requests/s")
    judge("GET /v1/sandboxes/{id}, of nginx with a file of that size",
          got["carrel"] / got["nginx"], 0.3, least=True)


def idle(say, judge, i):
    """Without a sandbox: memory of all roles, and processor time."""
    time.sleep(3)
    pids = [p for pids in i.pids().values() for p in pids]

    def ticks():
        return sum(int(x) for p in pids for x in
                   harness.read(f"/proc/{p}/stat").rsplit(")", 1)[1].split()
                   [11:13])
    before = ticks()
    time.sleep(10)
    used = (ticks() - before) / os.sysconf("SC_CLK_TCK")
    pss = 0
    for p in pids:
        for line in harness.read(f"/proc/{p}/smaps_rollup").splitlines():
            if line.startswith("Pss:"):
                pss += int(line.split()[1]) / 1024
    say("\nA daemon without a sandbox:")
    judge("memory of all roles together (PSS)", pss, 20, "MiB")
    judge("processor time, of the time that passed", used / 10, 0.002)


def part(say, judge, tool, port=17070):
    with harness.Instance(spares=0, log_level="info") as i:
        idle(say, judge, i)
    with harness.Instance(
            spares=0, log_level="info", pool_size="8G", disk="4G", pids=4096,
            memory="2G", cpus=2, listen=f"127.0.0.1:{port}") as i:
        box = i.create()
        kept_alive(say, i, box)
        output(say, judge, i, box)
        files(say, judge, i, box)
        many(say, judge, i, box, tool)
        requests(say, judge, i, box, port)
