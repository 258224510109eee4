"""A crowd: a thousand sandboxes and more at once, and the daemon dies among
them. All are found again, all can be used, all go."""

import random
import threading
import time

import host
import witness
from harness import SLOW, read

AT_ONCE = 4
SPEC = {"memory": "32M", "disk": "32M", "pids": 32}
EACH = 6 << 20  # bytes of memory that an idle one needs at most
KEEP = 2 << 30  # and what the host keeps


def as_many(wanted):
    """What the host has memory for."""
    free = int(next(x for x in read("/proc/meminfo").splitlines()
                    if x.startswith("MemAvailable")).split()[1]) << 10
    return min(wanted, (free - KEEP) // EACH)


class Crowd:
    def __init__(self, wanted, say):
        self.wanted, self.say = wanted, say
        self.problems = []

    def create(self, i, n):
        """The ids of those that were acknowledged."""
        left, lock, ids = [n], threading.Lock(), []

        def some():
            while True:
                with lock:
                    if left[0] == 0:
                        return
                    left[0] -= 1
                r = witness.ask(i, "POST", "/v1/sandboxes", SPEC)
                if r and r.status == 201:
                    ids.append(r.json["id"])
                else:
                    self.problems.append(f"create: {r}")
        threads = [threading.Thread(target=some) for _ in range(AT_ONCE)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return ids

    def there(self, i):
        return {b["id"] for b in witness.insist(
            i, "GET", "/v1/sandboxes?limit=10000", None,
            (200,)).json["sandboxes"]}

    def killed(self, i, ids):
        """Seconds until all are known again, for each who dies."""
        for who in ("carrel-warden", "carrel-api", None):
            began = time.monotonic()
            if who:
                i.kill_role(who)
            else:
                i.daemon.kill()
                host.start_again(i)
            i.wait_up(180)
            lost = set(ids) - self.there(i)
            self.problems += [f"{b} is lost with the {who or 'supervisor'}"
                              for b in lost]
            self.say(f"  {who or 'carreld'} dies: all known again after "
                     f"{time.monotonic() - began:.1f} s")

    def used(self, i, ids):
        for box in random.sample(ids, min(50, len(ids))):
            r = witness.insist(i, "POST", f"/v1/sandboxes/{box}/run",
                               {"command": "echo here"}, (200, 404, 410))
            if r.status != 200 or r.json["stdout"] != "here\n":
                self.problems.append(f"{box} does not work: {r}")

    def run(self):
        n = as_many(self.wanted)
        if n < self.wanted:
            self.say(f"  memory for {n} of {self.wanted}")
        conf, locks = host.crowd_ids(n + 20)
        try:
            with host.Host(state_size="16G", pool_size="8G", spares=0,
                           log_level="info", max_sandboxes=n + 20,
                           **conf) as i:
                began = time.monotonic()
                ids = self.create(i, n)
                self.say(f"crowd: {len(ids)} sandboxes in "
                         f"{time.monotonic() - began:.0f} s")
                self.killed(i, ids)
                self.used(i, ids)
                self.remove(i)
        finally:
            for lock in locks:
                lock.close()
        return self.problems

    def remove(self, i):
        began = time.monotonic()
        i.api("DELETE", "/v1/sandboxes?all=true", timeout=600 * SLOW)
        left = self.there(i)
        self.problems += [f"{b} is still there" for b in left]
        self.say(f"  all removed after {time.monotonic() - began:.1f} s")
