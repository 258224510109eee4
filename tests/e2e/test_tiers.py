"""Who may not be a container: by a policy, and by the configuration."""

import harness


class Required(harness.Case):
    CONF = {"require_microvm": "project walled, image guarded, open"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(harness.tiny_image(), "rb") as f:
            r = cls.i.api("PUT", "/v1/images/guarded", f.read())
        if r.status != 201:
            cls.i.stop(check=False)
            raise AssertionError(r)

    def refused(self, words, **spec):
        r = self.i.api("POST", "/v1/sandboxes", spec)
        self.assertEqual(r.status, 403, r)
        self.assertIn(words, r.json["message"])
        self.assertIn("microvm", r.json["message"])

    def policy(self, name, text):
        r = self.i.api("PUT", f"/v1/policies/{name}", text.encode())
        self.assertIn(r.status, (200, 201), r)

    def test_image_by_any_name(self):
        self.refused("its image", image="guarded")
        i = self.i.api("GET", "/v1/images/guarded").json
        self.refused("its image", image=i["id"])
        self.i.create(image="tiny")

    def test_open(self):
        self.refused("any host", rules=["allow * *"])
        self.refused("any host", rules=["allow GET a.test", "allow * https://*"])
        self.i.create(rules=["allow * a.test", "deny *"])
        self.policy("wide", "allow * *\n")
        self.refused("any host", policy="wide")

    def test_policy_says_so(self):
        self.policy("strict", "allow * a.test\nrequire tier microvm\n")
        self.refused("'strict'", policy="strict")
        box = self.i.create()
        r = self.i.api("PATCH", f"/v1/sandboxes/{box}", {"policy": "strict"})
        self.assertEqual(r.status, 403, r)
        got = self.i.api("GET", "/v1/policies/strict").json
        self.assertEqual(got["policy"]["require"], {"tier": "microvm"}, got)

    def test_policy_says_nonsense(self):
        for text in ("require", "require tier", "require tier container",
                     "require cpu 2", "require tier microvm now"):
            r = self.i.api("PUT", "/v1/policies/bad",
                           f"allow * a.test\n{text}\n".encode())
            self.assertEqual(r.status, 400, r)
            self.assertIn("line 2", r.json["message"])

    def test_fork_stays_what_it_is(self):
        """A disk of one tier is nothing to the other."""
        box = self.i.create()
        r = self.i.api("POST", f"/v1/sandboxes/{box}/fork",
                       {"spec": {"tier": "microvm"}})
        self.assertEqual(r.status, 400, r)
        self.assertIn("tier", r.json["message"])

    def test_project(self):
        key = self.i.api("POST", "/v1/keys", {"name": "w", "project": "walled",
                                              "scope": "admin"})
        self.assertEqual(key.status, 201, key)
        r = self.i.api("POST", "/v1/sandboxes", {},
                       {"Authorization": "Bearer " + key.json["key"]})
        self.assertEqual(r.status, 403, r)
        self.assertIn("its project", r.json["message"])


if __name__ == "__main__":
    harness.main()
