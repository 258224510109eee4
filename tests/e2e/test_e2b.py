# suite: both
# suite: npm
"""Sandboxes over the E2B SDKs, and what their wire is beyond the SDKs."""

import json
import socket
import time

import clients
import harness
from harness import SLOW, wait_for


@clients.cases("e2b_sandbox.test.mjs", variants=["e2b", "e2b-old"])
class Sandboxes(clients.Case):
    IMAGE = "debian"
    CONF = {"domain": "box.test"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.i.import_image("tiny")

    def environment(self):
        def make(*args):
            return self.i.cli("key", "create", *args, check=0).out.strip()
        # What a user is told has to be enough.
        told = json.loads(self.i.cli("--config", self.i.config, "e2b", "env",
                                     "--json", check=0).out)
        return {**told, "CARREL_NPM": clients.NPM,
                "CARREL_READ_KEY": make("--scope", "read"),
                "CARREL_OTHER_KEY": make("--project", "other")}


class Wire(harness.Case):
    """What no SDK says; over the unix socket, which is the operator's."""

    def create(self, **body):
        r = self.i.api("POST", "/v2/sandboxes", {"templateID": "base", **body})
        self.assertEqual(r.status, 201, r)
        return r.json

    def to(self, box, path, method="GET", **fields):
        return self.i.api(method, path, headers={
            "E2b-Sandbox-Id": box["sandboxID"],
            "X-Access-Token": box["envdAccessToken"], **fields})

    def test_names_lead_nowhere_else(self):
        """Without a domain of ours, SDKs would take that of the service."""
        self.assertEqual(self.create()["domain"], "localhost")

    def test_over_a_restart(self):
        metadata = {"what ever": "\u00fc"}
        box = self.create(metadata=metadata, envVars={"A": "1"}, timeout=600,
                          network={"allowPublicTraffic": False})
        before = self.i.api("GET", f"/sandboxes/{box['sandboxID']}").json
        self.i.kill_role("carrel-api")
        after = wait_for("it is back", lambda: self.again(box), 30 * SLOW)
        self.assertEqual(after, before)
        self.assertEqual(after["metadata"], metadata)
        self.assertEqual(self.to(box, "/envs").json, {"A": "1"})
        r = self.to(box, "/", **{"E2b-Sandbox-Port": "80"})
        self.assertEqual(r.status, 403)
        r = self.to(box, "/", **{
            "E2b-Sandbox-Port": "80",
            "e2b-traffic-access-token": box["trafficAccessToken"]})
        self.assertEqual((r.status, r.json["port"]), (502, 80))

    def again(self, box):
        try:
            r = self.i.api("GET", f"/sandboxes/{box['sandboxID']}")
        except OSError:
            return None
        return r.json if r.status == 200 else None

    def test_paused_over_a_restart(self):
        box = self.create(timeout=600)
        path = f"/sandboxes/{box['sandboxID']}"
        self.assertEqual(self.i.api("POST", path + "/pause").status, 204)
        self.i.kill_role("carrel-api")
        after = wait_for("it is back", lambda: self.again(box), 30 * SLOW)
        self.assertEqual((after["state"], after["lifecycle"]["onTimeout"]),
                         ("paused", "kill"))
        r = self.i.api("POST", "/v2" + path + "/connect", {"timeout": 1})
        self.assertEqual(r.status, 201, r)
        wait_for("its end", lambda: self.i.api("GET", path).status == 404,
                 20 * SLOW)

    def test_a_create_that_nobody_waits_for(self):
        known = self.boxes()
        for pause in (0, 0.001, 0.003, 0.01, 0.03):
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.i.sock)
            body = b'{"templateID": "base", "timeout": 2}'
            s.sendall(b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\n"
                      b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            time.sleep(pause)
            s.close()
        # What was ready in time lives as long as it was to.
        wait_for("none is left", lambda: self.boxes() <= known, 20 * SLOW)

    def boxes(self):
        r = self.i.api("GET", "/v1/sandboxes")
        return {b["id"] for b in r.json["sandboxes"]}

    def test_the_log_has_the_native_request(self):
        box = self.create(timeout=600)
        self.i.api("DELETE", f"/sandboxes/{box['sandboxID']}")
        gone = ("DELETE", f"/v1/sandboxes/{box['sandboxID']}")
        calls = wait_for("the log has it", lambda: self.calls(gone))
        self.assertIn(("POST", "/v1/sandboxes"), calls)
        self.assertNotIn(("POST", "/v2/sandboxes"), calls)

    def calls(self, last):
        r = self.i.api("GET", "/v1/events?follow=false&after=0&type=api.call")
        all = [json.loads(line)["data"] for line in r.body.splitlines() if line]
        all = [(d["method"], d["path"]) for d in all]
        return all if last in all else None


class Env(harness.Case):
    """What `e2b env` prints is all that a client needs."""

    def test_words(self):
        p = self.i.cli("e2b", "env", "--url", "https://boxes.test/", check=0)
        lines = p.out.splitlines()
        self.assertRegex(lines[0], r"^export E2B_API_KEY=e2b_[0-9a-f]{40}$")
        self.assertEqual(lines[1:4], [
            f"export {name}=https://boxes.test" for name in
            ("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL")])
        self.assertEqual(lines[4:], ["export E2B_DOMAIN=localhost"])
        self.assertIn("e2b", self.i.cli("key", "ls", check=0).out)

    def test_a_daemon_that_does_not_listen(self):
        p = self.i.cli("e2b", "env", "--no-key", check=1)
        self.assertIn("listen = 127.0.0.1:7070", p.err)

    def test_urls_that_are_none(self):
        for url in ("boxes.test", "ftp://x", "http://$(id)", "http://a'b"):
            p = self.i.cli("e2b", "env", "--no-key", "--url", url, check=2)
            self.assertIn("--url", p.err)


if __name__ == "__main__":
    harness.main()
