# suite: alone-net
"""The door of a sandbox over its life and over the lives of the roles: it is
there when a create is answered, after a restart of anything, and in every
other life of the sandbox; and what its spec says is in force when a change of
it was answered."""

import json
import os

import harness
from harness import SLOW, wait_for
from internet import Internet

ALLOW = ["allow * http://api.test"]


class Life(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.api = cls.net.web("api.test")
        cls.other = cls.net.web("other.test")
        cls.CONF = {**cls.net.conf, "ask_timeout": "60s"}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.net.close()

    def make(self, **spec):
        return self.i.create(**{"rules": ALLOW, **spec})

    def look(self, box):
        return self.i.api("GET", f"/v1/sandboxes/{box}").json

    def get(self, box, url="http://api.test/x"):
        """Exit code and text of a client inside."""
        r = self.i.sh(box, f"wget -q -T 10 -O - {url} 2>&1")
        return r.code, r.out

    def works(self, box, url="http://api.test/x"):
        n = len(self.api.requests)
        r = self.get(box, url)
        self.assertEqual(r[0], 0, r)
        self.assertEqual(len(self.api.requests), n + 1)

    def refused(self, box, url="http://other.test/"):
        n = len(self.other.requests)
        self.assertNotEqual(self.get(box, url)[0], 0)
        self.assertEqual(len(self.other.requests), n)

    def patch(self, box, **change):
        r = self.i.api("PATCH", f"/v1/sandboxes/{box}", json.dumps(change))
        self.assertEqual(r.status, 200, r)
        return r.json

    def stands(self, box):
        return wait_for("its door stands",
                        lambda: self.look(box).get("door", {}).get("up"),
                        20 * SLOW)

    def test_from_the_create_on(self):
        box = self.make()
        self.assertTrue(self.look(box)["door"]["up"])
        self.works(box)
        self.refused(box)
        self.assertNotIn("door", self.look(self.i.create()))


if __name__ == "__main__":
    harness.main()
