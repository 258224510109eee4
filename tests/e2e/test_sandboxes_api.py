# suite: sanitized
"""What a spec asks for is there, and what can be done to a sandbox."""

import sqlite3
import time
import unittest

import harness
from fake_warden import Api
from harness import SLOW, wait_for


class Spec(harness.Case):
    def test_defaults_of_processes(self):
        box = self.i.create(user="root", workdir="/etc", nofile=99,
                            env={"A": "b"})
        out = self.i.sh(box, "id -u; pwd; ulimit -n; ulimit -Hn; echo $A").out
        self.assertEqual(out.split(), ["0", "/etc", "99", "99", "b"])
        # Who asks for something else gets it.
        p = self.i.cli("exec", "-u", "1000", "-w", "/tmp", "-e", "A=c", box, "--",
                       "sh", "-c", "id -u; pwd; echo $A")
        self.assertEqual(p.out.split(), ["1000", "/tmp", "c"])
        self.i.rm(box)

    def test_usual_number_of_files(self):
        box = self.i.create()
        soft, hard = self.i.sh(box, "ulimit -n; ulimit -Hn").out.split()
        self.assertEqual(soft, "1024")
        self.i.rm(box)
        # As many as there may be, on a host that gives less.
        box = self.i.create(nofile=65536)
        self.assertEqual(self.i.sh(box, "ulimit -n; ulimit -Hn").out.split(),
                         [hard, hard])
        self.i.rm(box)

    def test_few_files_among_many_processes(self):
        """The agent's own descriptors do not count."""
        box = self.i.create(nofile=16)
        for _ in range(40):
            self.i.cli("exec", "-d", box, "--", "sleep", "100", check=0)
        self.assertEqual(self.i.sh(box, "ulimit -n; sudo -n id -u").out.split(),
                         ["16", "0"])
        self.i.rm(box)

    def test_start_commands(self):
        p = self.i.cli("create", "--start", "echo one > one; sleep 1000", "--start",
                       "echo $A > two", "-e", "A=two", "--label", "team=core",
                       "--port", "web=8080", "--user", "root", "--workdir", "/var",
                       check=0)
        box = p.out.strip()
        wait_for("both ran", lambda: self.i.sh(box, "cat one two").out ==
                 "one\ntwo\n", 5 * SLOW)
        self.assertIn("sleep", self.i.sh(box, "ps -ef || ps").out)
        j = self.i.api("GET", f"/v1/sandboxes/{box}").json
        self.assertEqual(j["labels"], {"team": "core"})
        self.assertEqual((j["spec"]["ports"], j["spec"]["labels"]),
                         ({"web": 8080}, {"team": "core"}))
        self.assertEqual(len(j["spec"]["start"]), 2)
        # They are of the start, not of every start of the daemon.
        self.i.sh(box, "rm one two")
        self.i.restart()
        time.sleep(0.3)
        self.assertNotIn("one", self.i.sh(box, "ls").out)
        self.assertEqual(self.i.api("GET", f"/v1/sandboxes/{box}").json["spec"],
                         j["spec"])
        self.i.rm(box)

    def test_start_of_a_run(self):
        p = self.i.cli("run", "--start", "echo hi > /tmp/x", "--", "sh", "-c",
                       "until cat /tmp/x 2>/dev/null; do sleep 0.05; done", check=0)
        self.assertEqual(p.out, "hi\n")

    def test_bad_words(self):
        for args, word in ((("--label", "x"), "--label"), (("--port", "=1"), "--port"),
                           (("--port", "web=x"), "web"), (("--label", "a b=c"), "a b")):
            p = self.i.cli("create", *args)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(word, p.err)
        self.assertEqual(self.i.ids(), [])


class FakeCase(unittest.TestCase):
    CONF = {}

    def setUp(self):
        self.a = Api(**self.CONF)
        self.w = self.a.warden

    def tearDown(self):
        self.a.stop()

    def fails(self, status, word, method, path, body=None, headers=None):
        r = self.a.api(method, path, body, headers)
        self.assertEqual((r.status, r.json["error"]), (status, word), r)
        return r.json["message"]

    def get(self, ref, **headers):
        r = self.a.api("GET", f"/v1/sandboxes/{ref}", headers=headers)
        self.assertEqual(r.status, 200, r)
        return r.json


class Ended(FakeCase):
    def test_it_is_remembered(self):
        box = self.a.create(name="n")
        before = self.get(box)
        self.a.rm(box)
        for _ in range(2):
            j = self.get(box)
            self.assertEqual(j.pop("ended")["reason"], "removed by uid:0")
            self.assertEqual(j, {"id": box, "name": "n", "project": "default",
                                 "image": "img", "state": "ended",
                                 "created_at": before["created_at"]})
            self.assertEqual(self.get(box[:12])["id"], box)
            self.assertEqual(self.a.ids(), [])
            upgrade = {"Connection": "Upgrade", "Upgrade": "carrel-wire/1"}
            self.assertIn("removed by uid:0", self.fails(
                410, "ended", "POST", f"/v1/sandboxes/{box}/exec", None, upgrade))
            self.fails(410, "ended", "DELETE", f"/v1/sandboxes/{box}")
            self.fails(404, "not_found", "GET", "/v1/sandboxes/n")
            self.a.kill()
            self.a.start()
        # Its name is free.
        self.assertNotEqual(self.a.create(name="n"), box)

    def test_only_for_its_project(self):
        key = self.a.api("POST", "/v1/keys", {"project": "p"}).json["key"]
        other = self.a.api("POST", "/v1/keys", {"project": "q"}).json["key"]
        box = self.a.api("POST", "/v1/sandboxes", {}, {"X-API-Key": key}).json["id"]
        self.a.rm(box)
        self.assertEqual(self.get(box, **{"X-API-Key": key})["state"], "ended")
        self.fails(404, "not_found", "GET", f"/v1/sandboxes/{box}", None,
                   {"X-API-Key": other})

    def test_reasons(self):
        a, b, c, d = (self.a.create() for _ in range(4))
        self.w.notice_ended(a)
        wait_for("its end", lambda: a not in self.a.ids(), 3)
        self.assertEqual(self.get(a)["ended"]["reason"], "ended by itself")
        self.a.kill()
        self.w.boxes.pop(b).end()
        self.a.start()
        self.assertEqual(self.get(b)["ended"]["reason"],
                         "ended while the daemon was down")
        # A boot of the host.
        self.a.kill()
        db = sqlite3.connect(f"{self.a.state_dir}/registry/registry.db")
        db.execute("UPDATE sandboxes SET boot_id = 'other' WHERE id = ?", (c,))
        db.commit()
        db.close()
        self.a.start()
        self.assertEqual(self.get(c)["ended"]["reason"], "the host was restarted")
        self.assertEqual(self.a.ids(), [d])
        wait_for("it is killed", lambda: list(self.w.boxes) == [d], 3)
        self.a.api("DELETE", "/v1/sandboxes?all=true")
        self.assertEqual(self.get(d)["ended"]["reason"],
                         "all sandboxes were removed by uid:0")

    def test_a_thousand(self):
        first = [self.a.create() for _ in range(5)]
        for box in first:
            self.a.rm(box)
        for _ in range(998):
            self.a.rm(self.a.create())
        self.assertEqual([self.a.api("GET", f"/v1/sandboxes/{b}").status
                          for b in first], [404, 404, 404, 200, 200])
        self.a.kill()
        self.a.start()
        self.assertEqual([self.a.api("GET", f"/v1/sandboxes/{b}").status
                          for b in first], [404, 404, 404, 200, 200])

    def test_for_a_day(self):
        box = self.a.create()
        self.a.rm(box)
        self.a.kill()
        db = sqlite3.connect(f"{self.a.state_dir}/registry/registry.db")
        db.execute("UPDATE ended SET ended_ms = ended_ms - 86400001")
        db.commit()
        db.close()
        self.a.start()
        self.fails(404, "not_found", "GET", f"/v1/sandboxes/{box}")


class Figures(harness.Case):
    def test_stats(self):
        box = self.i.create(name="busy", memory="128M")
        idle = self.i.create()
        self.i.sh(box, "head -c 20000000 /dev/zero > /tmp/x; i=0; "
                       "while [ $i -lt 100000 ]; do i=$((i+1)); done; echo 12345")
        j = self.i.api("GET", f"/v1/sandboxes/{box}/stats").json
        self.assertGreater(j["cpu_us"], 20000)
        self.assertGreater(j["memory_bytes"], 1 << 20)
        self.assertGreater(j["pids"], 0)
        self.assertEqual((j["id"], j["name"], j["output_bytes"], j["processes"]),
                         (box, "busy", 6, 0))
        j = self.i.api("GET", "/v1/stats").json
        self.assertEqual({s["id"] for s in j["sandboxes"]}, {box, idle})
        host = j["host"]
        self.assertEqual(host["sandboxes"], 2)
        self.assertEqual(host["promised_memory_bytes"], (128 + 256) << 20)
        self.assertEqual(host["promised_cpus"], 2)
        self.assertGreater(host["memory_bytes"], host["memory_available_bytes"])
        with self.i.exec_wire(box).sock:
            time.sleep(0.3)
            j = self.i.api("GET", f"/v1/sandboxes/{box}/stats").json
            self.assertEqual(j["idle_ms"], 0)
        time.sleep(0.3)
        self.assertGreater(
            self.i.api("GET", f"/v1/sandboxes/{idle}/stats").json["idle_ms"], 300)
        self.i.rm(box)
        self.assertEqual(self.i.api("GET", f"/v1/sandboxes/{box}/stats").status, 410)
        self.i.rm(idle)

    def test_usage(self):
        key = self.i.api("POST", "/v1/keys", {"project": "web"}).json["key"]
        web = {"X-API-Key": key}
        old = len(self.i.api("GET", "/v1/usage").json["usage"])
        box = self.i.api("POST", "/v1/sandboxes", {}, web).json["id"]
        self.i.sh(box, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo x")
        time.sleep(0.5)
        self.i.rm(box)
        self.i.cli("run", "--", "echo", "hello", check=0)

        def rows(headers=None, query=""):
            return self.i.api("GET", f"/v1/usage{query}", headers=headers).json
        wait_for("the run has ended", lambda: len(rows()["usage"]) == old + 2 and
                 all(u["ended_at"] for u in rows()["usage"]), 5 * SLOW)
        u, = rows(web)["usage"]
        self.assertEqual((u["sandbox"], u["project"], u["output_bytes"]),
                         (box, "web", 2))
        self.assertGreater(u["cpu_us"], 20000)
        self.assertGreater(u["memory_byte_s"], 100000)
        self.assertLess(u["started_at"], u["ended_at"])
        total, = rows(web)["projects"]
        self.assertEqual((total["project"], total["sandboxes"], total["cpu_us"]),
                         ("web", 1, u["cpu_us"]))
        self.assertEqual([p["project"] for p in rows()["projects"]],
                         ["default", "web"])
        self.assertEqual(rows(web, "?project=web")["usage"], [u])
        self.assertEqual(self.i.api("GET", "/v1/usage?project=default",
                                    headers=web).status, 403)
        self.assertEqual(rows(None, "?since=2100-01-01T00:00:00Z")["usage"], [])
        self.assertEqual(rows(None, "?until=2000-01-01T00:00:00.000Z")["usage"], [])
        self.assertEqual(len(rows(None, "?limit=1")["usage"]), 1)
        for bad in ("since=yesterday", "limit=0", "limit=x", "until=2100-01-01"):
            self.assertEqual(self.i.api("GET", f"/v1/usage?{bad}").status, 400)
        self.assertRegex(self.i.cli("usage", check=0).out,
                         r"(?m)^web +1 +\d+\.\d\d s +0\.\d+ GiB h ")
        out = self.i.cli("usage", "-s", "--since", "1h", "--project", "web").out
        self.assertRegex(out, f"(?m)^{box[:12]} +web ")
        # It is what a restart finds, and a living one goes on counting.
        box = self.i.create()
        self.i.sh(box, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
        before = self.i.api("GET", f"/v1/sandboxes/{box}/stats").json["cpu_us"]
        self.i.restart()
        row, = rows(None, f"?sandbox={box}")["usage"]
        self.assertGreaterEqual(row["cpu_us"], before)
        self.assertIsNone(row["ended_at"])
        self.i.rm(box)
        self.assertGreaterEqual(rows(None, f"?sandbox={box}")["usage"][0]["cpu_us"],
                                before)


class Admission(FakeCase):
    CONF = {"overcommit_memory": 0.02, "overcommit_cpus": 1.5}

    def test_promises(self):
        host = self.a.api("GET", "/v1/stats").json["host"]
        memory = host["memory_bytes"] // 50 // 4
        cpus = host["processors"] * 1.5 / 4
        boxes = [self.a.create(memory=memory, cpus=0.1) for _ in range(3)]
        msg = self.fails(503, "host_full", "POST", "/v1/sandboxes",
                         {"memory": memory * 2, "cpus": 0.1})
        self.assertIn("overcommit_memory", msg)
        msg = self.fails(503, "host_full", "POST", "/v1/sandboxes",
                         {"memory": "16M", "cpus": cpus * 4})
        self.assertIn("overcommit_cpus", msg)
        self.a.kill()
        self.a.start()
        self.fails(503, "host_full", "POST", "/v1/sandboxes",
                   {"memory": memory * 2, "cpus": 0.1})
        self.a.rm(boxes[0])
        self.a.create(memory=memory * 2 - (1 << 20), cpus=0.1)
        self.assertEqual(len(self.a.ids()), 3)


class Reserve(FakeCase):
    CONF = {"memory_reserve": "1024T"}

    def test_nothing_starts(self):
        self.assertIn("memory_reserve", self.fails(
            503, "host_full", "POST", "/v1/sandboxes", {}))
        self.assertEqual(self.w.boxes, {})


if __name__ == "__main__":
    harness.main()
