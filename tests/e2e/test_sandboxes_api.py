# suite: sanitized
"""What a spec asks for is there, and what can be done to a sandbox."""

import socket
import sqlite3
import time
import unittest

import harness
from fake_warden import LAUNCH, Api
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

    def test_files(self):
        raw = bytes(range(256)) * 500
        local = f"{self.i.dir}/raw"
        with open(local, "wb") as f:
            f.write(raw)
        box = self.i.create(files=[
            {"path": "new/dir/a.txt", "content": "caf\u00e9\n"},
            {"path": "/tmp/run", "content": "#!/bin/sh\necho ran $1\n", "mode": "0755"},
            {"path": "/etc/mine", "content": "x", "mode": "600", "user": "root"},
            {"path": "empty", "content": ""}],
            start=["/tmp/run first > ran"])
        out = self.i.sh(box, "cat new/dir/a.txt; /tmp/run it; ls -ln empty; "
                             "sudo -n ls -ln /etc/mine; pwd").out
        self.assertIn("caf\u00e9\nran it\n", out)
        self.assertRegex(out, r"-rw-r--r-- +1 1000 +1000 +0 .* empty")
        self.assertRegex(out, r"-rw------- +1 0 +0 +1 .* /etc/mine")
        wait_for("what starts finds them", lambda: self.i.sh(
            box, "cat ran").out == "ran first\n", 3 * SLOW)
        self.assertNotIn("files", self.i.api("GET", f"/v1/sandboxes/{box}").json["spec"])
        self.i.rm(box)
        p = self.i.cli("run", "--file", f"raw={local}", "--file",
                       "/tmp/x=/etc/hostname", "--", "sh", "-c", "cat raw", check=0)
        self.assertEqual(p.stdout, raw)

    def test_files_that_cannot_be(self):
        for file, status, word in (
                ({"path": "/etc/x", "content": ""}, 400, "/etc/x"),
                ({"path": "/tmp", "content": ""}, 400, "/tmp"),
                ({"path": "a", "content": "", "user": "nobodyknows"}, 400,
                 "nobodyknows")):
            r = self.i.api("POST", "/v1/sandboxes", {"files": [file]})
            self.assertEqual(r.status, status, r)
            self.assertIn(word, r.json["message"])
        wait_for("nothing is left", lambda: not self.i.box_pids() and
                 not self.i.ids(), 3 * SLOW)
        r = self.i.api("POST", "/v1/sandboxes", {"disk": "16M", "files": [
            {"path": f"f{n}", "content": "x" * 3000} for n in range(60)]})
        self.assertEqual(r.status, 201, r)
        self.i.rm(r.json["id"])

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


class Update(harness.Case):
    def patch(self, box, status=200, **change):
        change = {k.replace("_", "-"): v for k, v in change.items()}
        r = self.i.api("PATCH", f"/v1/sandboxes/{box}", change)
        self.assertEqual(r.status, status, r)
        return r.json

    def inside(self, box):
        """(memory, cpu quota per 100 ms, pids) as the kernel has them."""
        out = self.i.sh(box, """cd /sys/fs/cgroup
            cat memory.max memory/memory.limit_in_bytes 2>/dev/null | head -n 1
            cat user/cpu.max cpu/user/cpu.cfs_quota_us cpu/cpu.cfs_quota_us \\
                2>/dev/null | head -n 1""").out.split()
        return int(out[0]), int(out[1])

    def test_limits(self):
        box = self.i.create(memory="128M", cpus=1, pids=100)
        j = self.patch(box, memory="256M", cpus=0.5, pids=50)
        self.assertEqual((j["spec"]["memory"], j["spec"]["cpus"], j["spec"]["pids"]),
                         (256 << 20, 0.5, 50))
        self.assertEqual(self.inside(box), (256 << 20, 50000))
        out = self.i.sh(box, "for i in $(seq 80); do sleep 1 & done; wait").err
        self.assertIn("fork", out)
        # Smaller again; what can be dropped does not count.
        self.i.sh(box, "head -c 150000000 /dev/zero > /tmp/x; cat /tmp/x >/dev/null")
        self.patch(box, memory="64M", pids=100)
        self.assertEqual(self.inside(box)[0], 64 << 20)
        # It holds over a restart of everything.
        self.i.restart()
        self.i.kill_role("carrel-warden")
        wait_for("a new warden", lambda: self.i.api(
            "GET", f"/v1/sandboxes/{box}").json.get("usage"), 10 * SLOW)
        self.assertEqual(self.i.api("GET", f"/v1/sandboxes/{box}").json["spec"]
                         ["memory"], 64 << 20)
        self.assertEqual(self.inside(box)[0], 64 << 20)
        self.i.rm(box)

    def test_less_than_is_used(self):
        box = self.i.create(memory="256M")
        eater = self.i.popen("exec", box, "--", "sh", "-c",
                             "head -c 100000000 /dev/zero | tail -c 99999999 | "
                             "{ dd bs=1 count=1 2>/dev/null | wc -c; sleep 100; }")
        self.assertEqual(eater.stdout.readline(), b"1\n")
        msg = self.patch(box, 409, memory="64M")["message"]
        self.assertIn("64 MiB is too little", msg)
        self.assertEqual(self.inside(box)[0], 256 << 20)
        self.assertEqual(self.i.api("GET", f"/v1/sandboxes/{box}").json["spec"]
                         ["memory"], 256 << 20)
        self.assertIsNone(eater.poll())
        self.i.rm(box)
        eater.communicate(timeout=5 * SLOW)

    def test_timeouts(self):
        box = self.i.create()
        self.assertIsNone(self.i.api("GET", f"/v1/sandboxes/{box}").json["expires_at"])
        j = self.patch(box, timeout="1h")
        self.assertIsNotNone(j["expires_at"])
        self.assertIsNone(self.patch(box, timeout=0)["expires_at"])
        self.patch(box, timeout=1)
        wait_for("its end", lambda: box not in self.i.ids(), 3 * SLOW)
        box = self.i.create()
        time.sleep(0.5)
        self.patch(box, idle_timeout=1)
        wait_for("its end", lambda: box not in self.i.ids(), 5 * SLOW)
        self.assertEqual(self.i.api("GET", f"/v1/sandboxes/{box}").json["ended"]
                         ["reason"], "idle for 1 s")
        self.patch(box, 410, timeout=1)

    def test_refusals(self):
        box = self.i.create()
        for change, word in (({"disk": "1G"}, "disk"), ({"name": "x"}, "name"),
                             ({"cpus": 0}, "cpus"), ({"labels": {"a": 1}}, "labels"),
                             ({"x": 1}, "x")):
            self.assertIn(word, self.patch(box, 400, **change)["message"])
        self.patch("nothing", 404, timeout=1)
        self.i.rm(box)

    def test_command_line(self):
        box = self.i.create(labels={"a": "1"})
        self.i.cli("update", "--label", "b=2", "--memory", "128M", box, check=0)
        j = self.i.api("GET", f"/v1/sandboxes/{box}").json
        self.assertEqual((j["labels"], j["spec"]["memory"]),
                         ({"a": "1", "b": "2"}, 128 << 20))
        self.i.rm(box)


class FakeUpdate(FakeCase):
    def test_labels_add_up(self):
        box = self.a.create(labels={"a": "1", "b": "2"})
        r = self.a.api("PATCH", f"/v1/sandboxes/{box}",
                       {"labels": {"a": None, "c": "3"}})
        self.assertEqual(r.json["labels"], {"b": "2", "c": "3"})
        self.a.kill()
        self.a.start()
        self.assertEqual(self.get(box)["labels"], {"b": "2", "c": "3"})

    def test_a_crash_in_between(self):
        """The warden has the new limits, the registry the old ones."""
        box = self.a.create(memory="64M")
        self.a.kill()
        self.w.resize(box, 99, 500, 32 << 20)
        self.a.start()
        spec = self.get(box)["spec"]
        self.assertEqual((spec["pids"], spec["cpus"], spec["memory"]),
                         (99, 0.5, 32 << 20))

    def test_scope_and_project(self):
        key = self.a.api("POST", "/v1/keys", {"project": "p"}).json["key"]
        read = self.a.api("POST", "/v1/keys", {"scope": "read"}).json["key"]
        box = self.a.create()
        self.fails(404, "not_found", "PATCH", f"/v1/sandboxes/{box}",
                   {"timeout": 1}, {"X-API-Key": key})
        self.fails(403, "forbidden", "PATCH", f"/v1/sandboxes/{box}",
                   {"timeout": 1}, {"X-API-Key": read})


class Lists(FakeCase):
    def list(self, query="", **headers):
        r = self.a.api("GET", f"/v1/sandboxes{query}", headers=headers)
        self.assertEqual(r.status, 200, r)
        return [s["id"] for s in r.json["sandboxes"]], r.json["next"]

    def test_filters(self):
        a = self.a.create(name="a", labels={"team": "x", "n": "1"})
        b = self.a.create(labels={"team": "y"})
        key = self.a.api("POST", "/v1/keys", {"project": "p"}).json["key"]
        c = self.a.api("POST", "/v1/sandboxes", {"name": "a"},
                       {"X-API-Key": key}).json["id"]
        for query, want in (("", [a, b, c]), ("?label=team=x", [a]),
                            ("?label=team", [a, b]), ("?label=team=", []),
                            ("?label=other", []), ("?name=a", [a, c]),
                            ("?name=a&project=p", [c]), ("?project=default", [a, b]),
                            ("?state=running", [a, b, c]), ("?state=removing", []),
                            ("?label=team%3Dy&state=running", [b])):
            self.assertEqual(self.list(query), (want, None), query)
        self.assertEqual(self.list("?project=default", **{"X-API-Key": key}),
                         ([], None))
        for bad in ("limit=0", "limit=x", "limit=1001", "after=x", "name=a&name=b",
                    "after=" + "i" * 40):
            self.fails(400, "bad_request", "GET", f"/v1/sandboxes?{bad}")

    def test_pages(self):
        ids = [self.a.create() for _ in range(7)]
        seen, after = [], None
        while True:
            page, nxt = self.list("?limit=3" + (f"&after={after}" if after else ""))
            seen += page
            if not nxt:
                break
            self.assertEqual(nxt, page[-1])
            after = nxt
        self.assertEqual(seen, ids)
        self.assertEqual(self.list("?limit=7"), (ids, None))
        # The last of a page ends before the next one is asked for.
        page, nxt = self.list("?limit=3")
        self.a.rm(nxt)
        self.assertEqual(self.list(f"?limit=3&after={nxt}")[0], ids[3:6])
        self.a.kill()
        self.a.start()
        self.assertEqual(self.list(f"?after={nxt}")[0], ids[3:])

    def test_ended(self):
        ids = [self.a.create() for _ in range(3)]
        for box in ids:
            self.a.rm(box)
        self.assertEqual(self.list("?state=ended"), (ids[::-1], None))
        page, nxt = self.list("?state=ended&limit=2")
        self.assertEqual((page, nxt), (ids[:0:-1], ids[1]))
        self.assertEqual(self.list(f"?state=ended&after={nxt}"), (ids[:1], None))
        self.assertEqual(self.list(), ([], None))


class SpareLists(FakeCase):
    CONF = {"spares": 1}

    def test_in_the_order_of_creation(self):
        wait_for("a spare", lambda: len(self.w.boxes) == 1, 3)
        first = self.a.create(cpus=1)
        spare = self.a.create()
        self.assertEqual(self.a.ids(), [first, spare])


class Idempotency(FakeCase):
    def create(self, key, body=None, **headers):
        return self.a.api("POST", "/v1/sandboxes", body or {},
                          {"Idempotency-Key": key, **headers})

    def test_the_same_answer(self):
        first = self.create("k1", {"labels": {"a": "b"}})
        self.assertEqual(first.status, 201)
        self.assertNotIn("Idempotent-Replay", first.headers)
        for _ in range(2):
            again = self.create("k1", {"labels": {"a": "b"}})
            self.assertEqual((again.status, again.body), (201, first.body))
            self.assertEqual(again.headers["Idempotent-Replay"], "true")
            self.assertEqual(len(self.w.boxes), 1)
            self.assertEqual(self.create("k1", {"labels": {}}).status, 422)
            self.a.kill()
            self.a.start()
        self.assertEqual(self.create("k1").json["error"], "idempotency_mismatch")
        self.assertNotEqual(self.create("k2").json["id"], first.json["id"])
        # Also when it has ended.
        self.a.rm(first.json["id"])
        self.assertEqual(self.create("k1", {"labels": {"a": "b"}}).body, first.body)

    def test_keys_are_of_a_project(self):
        key = self.a.api("POST", "/v1/keys", {"project": "p"}).json["key"]
        a = self.create("k").json["id"]
        b = self.create("k", None, **{"X-API-Key": key}).json["id"]
        self.assertNotEqual(a, b)

    def test_bad_keys(self):
        for key in ("", "a b", "x" * 129, "\x7f", "\u00e9"):
            self.assertEqual(self.create(key).status, 400, key)
        self.assertEqual(self.create("x" * 128).status, 201)

    def test_failures_are_not_kept(self):
        self.assertEqual(self.create("k", {"image": "none"}).status, 404)
        self.assertEqual(self.create("k").status, 201)
        self.w.refuse = {LAUNCH: (28, "full")}
        self.assertEqual(self.create("k2").status, 507)
        self.w.refuse = {}
        self.assertEqual(self.create("k2").status, 201)

    def test_under_way(self):
        self.w.silent = {LAUNCH}
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.a.sock)
        s.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\n"
                  b"Idempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}")
        wait_for("the launch", lambda: [x for x in self.w.seen if x[0] == LAUNCH], 3)
        self.assertEqual(self.create("k").json["error"], "busy")
        self.assertEqual(self.create("k", {"cpus": 1}).status, 422)
        # Its client leaves: the key is free.
        s.close()
        self.w.silent = set()
        wait_for("it is free", lambda: self.create("k").status == 201, 3)

    def test_for_a_day(self):
        first = self.create("k").json["id"]
        self.a.kill()
        db = sqlite3.connect(f"{self.a.state_dir}/registry/registry.db")
        db.execute("UPDATE replays SET created_ms = created_ms - 86400001")
        db.commit()
        db.close()
        self.a.start()
        self.assertNotEqual(self.create("k").json["id"], first)


class Reserve(FakeCase):
    CONF = {"memory_reserve": "1024T"}

    def test_nothing_starts(self):
        self.assertIn("memory_reserve", self.fails(
            503, "host_full", "POST", "/v1/sandboxes", {}))
        self.assertEqual(self.w.boxes, {})


if __name__ == "__main__":
    harness.main()
