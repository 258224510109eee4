# suite: sanitized
"""Keys, scopes and projects: who sees and may do what."""

import os
import re
import sqlite3
import unittest

import harness
from fake_warden import Api
from harness import wait_for


class KeyCase(unittest.TestCase):
    def setUp(self):
        self.a = Api()
        self.w = self.a.warden

    def tearDown(self):
        self.a.stop()

    def key(self, scope="use", project="default", name="", by=None):
        r = self.call("POST", "/v1/keys", by,
                      {"name": name, "scope": scope, "project": project})
        self.assertEqual(r.status, 201, r)
        return r.json["key"]

    def call(self, method, path, key=None, body=None, headers=None):
        headers = dict(headers or {})
        if key:
            headers["Authorization"] = f"Bearer {key}"
        return self.a.api(method, path, body, headers)

    def fails(self, status, word, *call, **kw):
        r = self.call(*call, **kw)
        self.assertEqual((r.status, r.json["error"]), (status, word), r)
        self.assertEqual(set(r.json), {"code", "error", "message", "request_id"})
        return r.json["message"]

    def create(self, key, **spec):
        r = self.call("POST", "/v1/sandboxes", key, spec)
        self.assertEqual(r.status, 201, r)
        return r.json["id"]

    def ids(self, key=None):
        return [s["id"] for s in
                self.call("GET", "/v1/sandboxes", key).json["sandboxes"]]


class Keys(KeyCase):
    def test_life_of_a_key(self):
        r = self.a.api("POST", "/v1/keys", {"name": "ci \u00e9", "scope": "admin"})
        self.assertEqual(r.status, 201)
        j = r.json
        self.assertRegex(j["key"], r"^e2b_[0-9a-f]{40}$")
        self.assertRegex(j["id"], r"^[0-9a-f]{8}$")
        self.assertEqual((j["name"], j["project"], j["scope"], j["last_used_at"]),
                         ("ci \u00e9", "default", "admin", None))
        secret = j.pop("key")
        self.assertEqual(self.a.api("GET", "/v1/keys").json, {"keys": [j]})
        self.assertEqual(self.call("GET", "/v1/sandboxes", secret).status, 200)
        seen = self.call("GET", "/v1/keys", secret).json["keys"][0]
        self.assertRegex(seen["last_used_at"], r"^\d{4}-.*Z$")
        # It survives a crash, and is nowhere in the clear.
        self.a.kill()
        self.a.start()
        self.assertEqual(self.call("GET", "/v1/keys", secret).json["keys"], [seen])
        for name in os.listdir(f"{self.a.state_dir}/registry"):
            with open(f"{self.a.state_dir}/registry/{name}", "rb") as f:
                self.assertNotIn(secret[4:].encode(), f.read())
        self.assertNotIn(secret[4:], self.a.log())
        self.assertEqual(self.call("DELETE", f"/v1/keys/{j['id']}").status, 204)
        self.fails(401, "no_key", "GET", "/v1/sandboxes", secret)
        self.fails(404, "not_found", "DELETE", f"/v1/keys/{j['id']}")
        self.a.kill()
        self.a.start()
        self.fails(401, "no_key", "GET", "/v1/sandboxes", secret)

    def test_forms(self):
        k = self.key("read")
        for h in ({"Authorization": f"Bearer {k}"}, {"authorization": f"bearer {k}"},
                  {"X-API-Key": k}):
            self.assertEqual(self.call("GET", "/v1/images", headers=h).status, 200, h)
        r = self.call("GET", "/v1/images", k + "0")
        self.assertEqual((r.status, r.headers["WWW-Authenticate"]), (401, "Bearer"))
        for h in ({"Authorization": k}, {"Authorization": f"Basic {k}"},
                  {"Authorization": f"Bearer {k}0"}, {"X-API-Key": ""},
                  {"Authorization": "Bearer " + k.upper()},
                  {"Authorization": "Bearer e2b_" + "0" * 40},
                  {"X-API-Key": "e2b_"}):
            self.fails(401, "no_key", "GET", "/v1/images", headers=h)

    def test_bad_asks(self):
        for body, word in (({"scope": "root"}, "scope"), ({"x": 1}, "x"),
                           ({"project": "A"}, "project"), ({"project": ""}, "project"),
                           ({"name": "a\nb"}, "name"), ({"name": "n" * 64}, "name"),
                           ({"name": 5}, "string")):
            self.assertIn(word, self.fails(400, "bad_request", "POST", "/v1/keys",
                                           body=body))
        self.assertEqual(self.a.api("GET", "/v1/keys").json, {"keys": []})

    def test_scopes(self):
        read, use, admin = (self.key(s) for s in ("read", "use", "admin"))
        box = self.create(use, name="b")
        for k in (read, use, admin):
            for path in ("/v1/sandboxes", f"/v1/sandboxes/{box}", "/v1/images",
                         "/v1/host", "/v1/projects"):
                self.assertEqual(self.call("GET", path, k).status, 200, path)
            self.assertIn("all projects", self.fails(403, "forbidden", "GET",
                                                     "/metrics", k))
        everybody = self.key("read", project="*")
        self.assertEqual(self.call("GET", "/metrics", everybody).status, 200)
        msg = self.fails(403, "forbidden", "POST", "/v1/sandboxes", read, {})
        self.assertIn("'read'", msg)
        self.assertIn("'use'", msg)
        self.fails(403, "forbidden", "DELETE", f"/v1/sandboxes/{box}", read)
        self.fails(403, "forbidden", "POST", "/v1/run", read, {})
        self.fails(403, "forbidden", "POST", f"/v1/sandboxes/{box}/exec", read)
        for k in (read, use):
            self.fails(403, "forbidden", "GET", "/v1/keys", k)
            self.fails(403, "forbidden", "POST", "/v1/keys", k, {})
            self.fails(403, "forbidden", "DELETE", "/v1/sandboxes?all=true", k)
        self.assertEqual(self.call("DELETE", f"/v1/sandboxes/{box}", use).status, 204)

    def test_an_agents_key_cannot_approve_itself(self):
        keys = {s: self.key(s) for s in ("read", "use", "approve", "policy",
                                         "admin")}
        may = {"approve": ("approve", "policy", "admin"),
               "policy": ("policy", "admin")}
        for what, method, path, body in (
                ("approve", "POST", "/v1/approvals/1", {"allow": True}),
                ("policy", "PUT", "/v1/policies/p", b"allow * x.test"),
                ("policy", "DELETE", "/v1/policies/p", None)):
            for scope, key in keys.items():
                with self.subTest(what=what, method=method, scope=scope):
                    r = self.call(method, path, key, body)
                    if scope in may[what]:
                        self.assertIn(r.status, (200, 204, 400, 404), r)
                    else:
                        self.assertEqual(r.status, 403, r)
                        self.assertIn(f"'{what}' is needed", r.json["message"])
        self.create(keys["approve"], name="b")

    def test_scopes_are_kept(self):
        """Keys of older registries keep theirs: 2 has always been admin."""
        scopes = ("read", "use", "approve", "policy", "admin")
        for s in scopes:
            self.key(s, name=s)
        self.a.kill(15)
        db = sqlite3.connect(f"{self.a.state_dir}/registry/registry.db")
        kept = dict(db.execute("SELECT name, scope FROM keys"))
        db.close()
        self.assertEqual((kept["read"], kept["use"], kept["admin"]), (0, 1, 2))
        self.a.start()
        self.assertEqual({k["name"]: k["scope"] for k in
                          self.a.api("GET", "/v1/keys").json["keys"]},
                         {s: s for s in scopes})

    def test_images_are_the_operators(self):
        """They are shared: the admin of one project must not change them."""
        admin, op = self.key("admin"), self.key("admin", "*")
        self.assertIn("all projects", self.fails(
            403, "forbidden", "PUT", "/v1/images/img", admin, b"x"))
        self.fails(403, "forbidden", "DELETE", "/v1/images/img", admin)
        self.assertEqual(self.call("PUT", "/v1/images/two", op, b"x").status, 201)
        self.assertEqual(self.call("DELETE", "/v1/images/two", op).status, 204)
        self.fails(403, "forbidden", "PUT", "/v1/images/img",
                   self.key("use", "*"), b"x")

    def test_wrong_keys_get_slow(self):
        good, bad = self.key("read"), "e2b_" + "a" * 40
        words = [self.call("GET", "/v1/images", bad).status for _ in range(15)]
        self.assertEqual(words[:10], [401] * 10)
        self.assertEqual(words[11:], [429] * 4)
        self.assertEqual(self.call("GET", "/v1/images", good).status, 200)
        self.assertEqual(self.a.api("GET", "/v1/images").status, 200)


class Projects(KeyCase):
    def test_nobody_sees_the_others(self):
        one, two = self.key(project="one"), self.key(project="two")
        a, b = self.create(one, name="same"), self.create(two, name="same")
        c = self.a.create(name="mine")
        self.assertEqual((self.ids(one), self.ids(two)), ([a], [b]))
        self.assertEqual(sorted(self.ids()), sorted([a, b, c]))
        self.assertEqual(self.call("GET", "/v1/sandboxes/same", one).json["id"], a)
        j = self.call("GET", "/v1/sandboxes/same", two).json
        self.assertEqual((j["id"], j["project"]), (b, "two"))
        for ref in (a, a[:10], "mine", c):
            self.fails(404, "not_found", "GET", f"/v1/sandboxes/{ref}", two)
            self.fails(404, "not_found", "DELETE", f"/v1/sandboxes/{ref}", two)
        self.fails(404, "not_found", "POST", f"/v1/sandboxes/{a}/exec", two,
                   headers={"Connection": "Upgrade", "Upgrade": "carrel-wire/1"})
        # A name is taken in its own project only; the operator is told.
        self.fails(409, "conflict", "POST", "/v1/sandboxes", one, {"name": "same"})
        self.assertEqual(self.a.api("GET", "/v1/sandboxes/mine").json["id"], c)
        self.fails(409, "conflict", "GET", "/v1/sandboxes/same")
        self.a.rm(a)
        self.assertEqual(self.a.api("GET", "/v1/sandboxes/same").json["id"], b)

    def test_it_lasts(self):
        one = self.key(project="one")
        box = self.create(one, name="n")
        self.a.kill()
        self.a.start()
        self.assertEqual(self.ids(one), [box])
        self.assertEqual(self.ids(self.key(project="two")), [])
        self.fails(409, "conflict", "POST", "/v1/sandboxes", one, {"name": "n"})

    def test_keys_of_a_project(self):
        admin = self.key("admin", "one")
        other = self.a.api("POST", "/v1/keys", {"project": "two"}).json["id"]
        mine = self.key("admin", "one", by=admin)
        self.assertEqual(
            {k["project"] for k in self.call("GET", "/v1/keys", mine).json["keys"]},
            {"one"})
        for project in ("two", "*", "default"):
            self.fails(403, "forbidden", "POST", "/v1/keys", admin,
                       {"project": project})
        self.fails(404, "not_found", "DELETE", f"/v1/keys/{other}", admin)
        # By default it makes them for its own.
        self.assertEqual(self.call("POST", "/v1/keys", admin, {}).json["project"],
                         "one")

    def test_projects(self):
        k = self.key(project="one")
        self.create(k)
        got = self.a.api("GET", "/v1/projects").json["projects"]
        self.assertEqual([(p["name"], p["sandboxes"], p["keys"]) for p in got],
                         [("default", 0, 0), ("one", 1, 1)])
        self.assertEqual([p["name"] for p in
                          self.call("GET", "/v1/projects", k).json["projects"]],
                         ["one"])

    def test_kill_switch_of_a_project(self):
        one, two = self.key("admin", "one"), self.key("admin", "two")
        for _ in range(3):
            self.create(one)
        b, c = self.create(two), self.a.create()
        self.assertEqual(self.call("DELETE", "/v1/sandboxes?all=true", one).json,
                         {"removed": 3})
        self.assertEqual(sorted(self.ids()), sorted([b, c]))
        self.assertEqual(sorted(self.w.boxes), sorted([b, c]))
        self.assertEqual(self.call("DELETE", "/v1/sandboxes?all=true", one).json,
                         {"removed": 0})
        # A key of all projects is the operator.
        self.assertEqual(self.call("DELETE", "/v1/sandboxes?all=true",
                                   self.key("admin", "*")).json, {"removed": 2})

    def test_run_is_of_the_project(self):
        k = self.key(project="one")
        x = harness.Wire.upgrade(self.a.sock, "/v1/run", b"{}",
                                 headers={"Authorization": f"Bearer {k}"})
        self.assertEqual(len(self.ids(k)), 1)
        self.assertEqual(self.ids(self.key(project="two")), [])
        x.close()
        wait_for("it is gone", lambda: not self.w.boxes, 3)


class Spares(KeyCase):
    def setUp(self):
        self.a = Api(spares=1)
        self.w = self.a.warden

    def test_a_spare_becomes_the_projects(self):
        k = self.key(project="one")
        wait_for("a spare", lambda: len(self.w.boxes) == 1, 3)
        spare = next(iter(self.w.boxes))
        self.assertEqual(self.create(k), spare)
        self.assertEqual(self.ids(k), [spare])
        self.assertEqual(self.ids(self.key(project="two")), [])


class Schema(unittest.TestCase):
    def test_newer_formats_are_refused(self):
        a = Api()
        try:
            a.kill(15)
            db = sqlite3.connect(f"{a.state_dir}/registry/registry.db")
            version, = db.execute("PRAGMA user_version").fetchone()
            db.execute(f"PRAGMA user_version = {version + 1}")
            db.commit()
            db.close()
            with self.assertRaisesRegex(AssertionError, "install a newer one"):
                a.start()
            db = sqlite3.connect(f"{a.state_dir}/registry/registry.db")
            db.execute(f"PRAGMA user_version = {version}")
            db.commit()
            db.close()
            with open(f"{a.state_dir}/FORMAT", "r+") as f:
                was = f.read()
                f.seek(0)
                f.write(f"{int(was) + 1}\n")
            with self.assertRaisesRegex(AssertionError, "install a newer"):
                a.start()
            with open(f"{a.state_dir}/FORMAT", "w") as f:
                f.write(was)
            a.start()
        finally:
            a.stop()


class CommandLine(harness.Case):
    def test_keys(self):
        p = self.i.cli("key", "create", "--name", "ci", "--scope", "read",
                       "--project", "web", check=0)
        self.assertRegex(p.out, r"^e2b_[0-9a-f]{40}\n$")
        ls = self.i.cli("key", "ls", check=0).out
        self.assertNotIn(p.out.strip(), ls)
        key_id, = re.findall(r"^([0-9a-f]{8}) +ci +web +read ", ls, re.M)
        r = self.i.api("GET", "/v1/sandboxes",
                       headers={"X-API-Key": p.out.strip()})
        self.assertEqual(r.status, 200)
        self.assertEqual(self.i.cli("key", "ls", "-q").out.strip(), key_id)
        self.i.cli("key", "rm", key_id, check=0)
        self.assertEqual(self.i.cli("key", "rm", key_id).returncode, 1)
        self.assertEqual(self.i.cli("key", "create", "--scope", "x").returncode, 1)


if __name__ == "__main__":
    harness.main()
