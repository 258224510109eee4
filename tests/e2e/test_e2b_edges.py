# suite: sanitized
"""E2B's API for those who mean it badly, or may only read."""

import base64
import concurrent.futures
import hashlib
import json
import re
import socket
import time

import e2b_case
import harness
from harness import read, wait_for


class Case(e2b_case.Case):
    def role(self):
        return self.i.pids()["carrel-api"]


class Rights(Case):
    """A key that may only read gets nothing that opens more."""

    def test_token_of_a_volume(self):
        made = self.ok(201, "POST", "/volumes", {"name": "data"})
        self.assertIn("token", made)
        at = f"/volumes/{made['volumeID']}"
        self.assertEqual(self.ok(200, "GET", at, key=self.key())["token"],
                         made["token"])
        seen = self.ok(200, "GET", at, key=self.key("read"))
        self.assertNotIn("token", seen)
        self.assertEqual(seen["name"], "data")
        self.ok(204, "DELETE", at)

    def test_headers_are_secrets_that_readers_do_not_set(self):
        box = self.i.create()
        reader = self.key("read")
        rules = {"api.test": [{"transform": {"headers": {"X-Key": "v"}}}]}
        self.ok(403, "POST", "/v2/sandboxes",
                {"templateID": "base", "network": {"rules": rules}},
                key=reader)
        self.ok(403, "PUT", f"/sandboxes/{box}/network",
                {"rules": rules}, key=reader)
        seen = self.i.api("GET", "/v1/events?follow=false&after=0").body
        self.assertNotIn(b'"secret.', seen)
        self.i.rm(box)

    def test_a_signed_url_is_for_its_user_alone(self):
        box = self.ok(201, "POST", "/v2/sandboxes", {"templateID": "base"})
        token = box["envdAccessToken"]
        hashed = hashlib.sha256(f"mine:write::{token}".encode()).digest()
        sign = base64.b64encode(hashed).decode().rstrip("=")
        sign = "v1_" + sign.replace("+", "%2B").replace("/", "%2F")
        root = base64.b64encode(b"root:").decode()
        entry = self.ok(200, "POST", f"/files?path=mine&signature={sign}",
                        b"x", headers={"Content-Type":
                                       "application/octet-stream",
                                       "Authorization": f"Basic {root}"})
        self.assertEqual(entry[0]["path"], "/home/user/mine")
        self.i.rm(box["sandboxID"])


class Odd(Case):
    def test_addresses_that_were_never_made(self):
        before = self.role()
        for n in (1, 27, 64, 100, 115, 120, 127):
            r = self.call("PUT", f"/templates/{'a' * n}/files/{'0' * 64}"
                          "?until=68719476719&signature=00", b"x")
            self.assertEqual(r.status, 403, r)
            self.ok(401, "GET", f"/volumecontent/{'a' * n}/dir",
                    headers={"Authorization": "Bearer 00"})
        self.assertEqual(self.role(), before)

    @harness.plain_only
    def test_a_value_that_says_too_much(self):
        """ENV with a command that writes megabytes, which nobody keeps."""
        b = self.ok(202, "POST", "/v3/templates", {"name": "loud"})
        at = f"/templates/{b['templateID']}/builds/{b['buildID']}"
        loud = "yes 0123456789012345678901234567890123456789 | head -c 40000000"
        self.ok(202, "POST", "/v2" + at, {"steps": [
            {"type": "ENV", "args": ["A", f"$({loud} >&2)a"]}]})
        end = wait_for("the build is over", lambda: (lambda s: s if s["status"]
                       in ("ready", "error") else None)(
                           self.ok(200, "GET", at + "/status")), 60)
        self.assertEqual(end["status"], "ready", end)
        top = re.search(r"VmHWM:\s*(\d+)", read(
            f"/proc/{self.role()[0]}/status"))
        self.assertLess(int(top.group(1)), 36 * 1024)
        self.ok(204, "DELETE", f"/templates/{b['templateID']}")


class Envd(Case):
    def make(self):
        box = self.ok(201, "POST", "/v2/sandboxes", {"templateID": "base"})
        return box["sandboxID"], {"E2b-Sandbox-Id": box["sandboxID"],
                                  "X-Access-Token": box["envdAccessToken"],
                                  "Content-Type": "application/json"}

    def fs(self, fields, call, status=200, **message):
        return self.ok(status, "POST", f"/filesystem.Filesystem/{call}",
                       message, headers=fields)

    def test_events_that_are_long(self):
        """What nobody fetches is bounded by its bytes, too."""
        box, fields = self.make()
        self.fs(fields, "MakeDir", path="/home/user/w")
        w = self.fs(fields, "CreateWatcher", path="/home/user/w",
                    includeEntry=True)["watcherId"]
        for n in range(120):
            self.ok(200, "POST", f"/files?path=w/{n}", b"x", headers={
                **fields, "Content-Type": "application/octet-stream",
                "X-Metadata-Long": "m" * 3500})
        seen = set()

        def more():
            got = self.fs(fields, "GetWatcherEvents", watcherId=w)["events"]
            self.assertLess(len(json.dumps(got)), 600 * 1024)
            seen.update(e["name"] for e in got)
            return len(seen) == 120
        wait_for("all events", more, 30)
        self.i.rm(box)

    def test_watchers_end_with_their_sandbox(self):
        for _ in range(33):
            box, fields = self.make()
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda n: self.fs(
                    fields, "CreateWatcher", path="/tmp"), range(32)))
            self.i.rm(box)


class Secrets(Case):
    def names(self):
        r = self.i.api("GET", "/v1/secrets")
        return [s["name"] for s in r.json["secrets"]]

    def test_changes_at_once_leave_none_behind(self):
        box = self.ok(201, "POST", "/v2/sandboxes", {"templateID": "base"})
        at = f"/sandboxes/{box['sandboxID']}/network"

        def change(n):
            rules = {"api.test": [{"transform": {"headers": {"X": str(n)}}}]}
            return self.call("PUT", at, {"rules": rules}).status
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            self.assertEqual(set(pool.map(change, range(12))), {204})
        wait_for("one is left", lambda: len(self.names()) == 1)
        # In other words than those of E2B, too.
        self.ok(200, "PATCH", f"/v1/sandboxes/{box['sandboxID']}",
                {"secrets": []})
        wait_for("none is left", lambda: not self.names())

    def test_all_sandboxes_are_ended(self):
        rules = {"api.test": [{"transform": {"headers": {"A": "a"}}}]}
        self.ok(201, "POST", "/v2/sandboxes",
                {"templateID": "base", "network": {"rules": rules}})
        self.assertEqual(len(self.names()), 1)
        self.ok(200, "DELETE", "/v1/sandboxes?all=true")
        wait_for("none is left", lambda: not self.names())

    def leave(self, method, path, body, after):
        body = json.dumps(body).encode()
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.i.sock)
            s.sendall(b"%s %s HTTP/1.1\r\nHost: localhost\r\n"
                      b"Content-Length: %d\r\n\r\n%s" %
                      (method, path, len(body), body))
            time.sleep(after)

    def test_clients_that_leave(self):
        """None of theirs stays, and no sandbox is left with names of secrets
        that are not there, which nothing could be changed of any more."""
        box = self.ok(201, "POST", "/v2/sandboxes", {"templateID": "base"})
        at = f"/sandboxes/{box['sandboxID']}"
        rules = {"api.test": [{"transform": {"headers": {"A": "a", "B": "b"}}}]}

        def leave(n):
            self.leave(b"PUT", f"{at}/network".encode(), {"rules": rules},
                       n * 0.0005)
            self.leave(b"POST", b"/v2/sandboxes",
                       {"templateID": "base", "network": {"rules": rules}},
                       n * 0.0005)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(leave, range(40)))
        self.ok(204, "POST", f"{at}/timeout", {"timeout": 100})
        self.i.api("DELETE", "/v1/sandboxes?all=true")
        wait_for("none is left", lambda: not self.names())


if __name__ == "__main__":
    harness.main()
