"""What it costs to speak E2B: a sandbox, a command and its end through their
npm package, next to a plain client of the native API in the same program."""

import json
import os
import statistics
import subprocess

import harness

ROUNDS = 50
BURST = 100
MOST = 3.0  # times the native client


def measure(i, port):
    npm = os.path.join(harness.TOP, "build/npm")
    subprocess.run([os.path.join(harness.TOP, "tools/npm.sh")], check=True,
                   stdout=subprocess.DEVNULL)
    key = i.cli("key", "create", "--name", "bench", check=0).out.strip()
    url = f"http://127.0.0.1:{port}"
    out = subprocess.run(
        ["node", os.path.join(harness.TOP, "bench/e2b.mjs"), str(ROUNDS),
         str(BURST)], check=True, text=True, stdout=subprocess.PIPE,
        timeout=900, env={**os.environ, "CARREL_NPM": npm, "E2B_API_KEY": key,
                          "E2B_API_URL": url, "E2B_SANDBOX_URL": url}).stdout
    return json.loads(out)


def part(say, judge, port=17075):
    with harness.Instance(
            image="debian", spares=0, log_level="info", pool_size="4G",
            max_sandboxes=BURST + 20, listen=f"127.0.0.1:{port}") as i:
        got = measure(i, port)
    for what, title in (("sequence", f"one after the other ({ROUNDS})"),
                        ("crowd", f"{BURST} at once")):
        say(f"\nA sandbox, a command, its end; {title}, medians:")
        ms = {way: statistics.median(t) for way, t in got[what].items()}
        for way, t in ms.items():
            say(f"  {way:8} {t:8.1f} ms")
        judge(f"npm e2b, of a native client, {title}",
              ms["e2b"] / ms["native"], MOST)
    for line in got["failures"][:5]:
        say(f"  {line}")
    judge("sandboxes of both that failed", len(got["failures"]), 0, "")
