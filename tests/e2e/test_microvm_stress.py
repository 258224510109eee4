# suite: microvm
# suite: long
"""Machines that were just restored, made and asked many times over on a host
that has no time for them: each answers, and hardly any has to be called twice.

	ESCAPE_LONG=1 make test-microvm T=microvm_stress
"""

import os
import subprocess
import sys
import threading

import harness
from harness import SLOW

BOOT = 120 * SLOW
CLONES = int(os.environ.get("MICROVM_CLONES", "200"))
AT_ONCE = 4
# Two processors: what tells a guest of its lines and what reads them are then
# on different ones, and the host runs either of them first.
SPEC = {"tier": "microvm", "cpus": 2, "memory": "64M", "disk": "64M"}


class Stress(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.CONF = {"vm_dir": harness.vm_dir(), "microvm_spares": 0}
        super().setUpClass()

    def setUp(self):
        self.busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                     for _ in range(os.cpu_count())]
        self.bad, self.done, self.lock = [], 0, threading.Lock()

    def tearDown(self):
        for p in self.busy:
            p.kill()
            p.wait()
        super().tearDown()

    def one(self):
        r = self.i.api("POST", "/v1/sandboxes", SPEC, timeout=BOOT)
        self.assertEqual(r.status, 201, r)
        box = r.json["id"]
        p = self.i.sh(box, "hostname", timeout=BOOT)
        self.assertEqual((p.returncode, p.out), (0, box[:12] + "\n"), p.err)
        self.i.rm(box)

    def some(self):
        try:
            while not self.bad:
                with self.lock:
                    if self.done >= CLONES:
                        return
                    self.done += 1
                self.one()
        except BaseException as e:  # of a thread: told below
            self.bad.append(e)

    def test_each_answers(self):
        threads = [threading.Thread(target=self.some) for _ in range(AT_ONCE)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(self.bad, [])
        self.assertEqual(self.done, CLONES)
        log = self.i.log()
        self.assertFalse("broke the protocol" in log)
        # Who is only slow is called again, too.
        again = log.count("its machine does not answer")
        print(f"# {again} of {CLONES} were called again")
        self.assertLess(again, CLONES // 10)


if __name__ == "__main__":
    harness.main()
