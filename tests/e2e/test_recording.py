# suite: both
# suite: sanitized
"""Terminals that are recorded: what is kept, for whom, and how much of it."""

import json
import os
import stat
import time
import urllib.parse

import harness
import websocket
from harness import SLOW, wait_for
from test_log import settled


class Recordings(harness.Case):
    def terminal(self, box, **query):
        ws = websocket.WebSocket(
            self.i.sock, f"/v1/sandboxes/{box}/terminal?" +
            urllib.parse.urlencode(query), 20 * SLOW)
        self.addCleanup(ws.close)
        self.started = ws.message()["started"]
        return ws

    def finish(self, ws):
        shown = b""
        while True:
            m = ws.message()
            if isinstance(m, bytes):
                shown += m
            elif isinstance(m, tuple):
                return shown

    def listed(self, box, headers=None):
        r = self.i.api("GET", f"/v1/sandboxes/{box}/recordings", None, headers)
        self.assertEqual(r.status, 200, r)
        return r.json["recordings"]

    def cast(self, box, number=0):
        """(header, events) of a recording."""
        one = self.listed(box)[number]
        r = self.i.api("GET", f"/v1/sandboxes/{box}/recordings/{one['id']}")
        self.assertEqual(r.headers["Content-Type"], "application/x-asciicast")
        lines = [json.loads(x) for x in r.body.decode().splitlines()]
        return lines[0], lines[1:]

    def test_what_was_shown(self):
        box = self.i.create()
        ws = self.terminal(box, record="true", rows=30, cols=100,
                           command="stty -echo; echo wörld; read x; echo $x | "
                                   "wc -c; printf '\\377\\n'")
        while b"rld" not in ws.message():
            pass
        ws.order(resize={"rows": 40, "cols": 120})
        ws.send(websocket.BINARY, b"typed-secret\r")
        self.finish(ws)
        head, events = self.cast(box)
        self.assertEqual((head["version"], head["width"], head["height"]),
                         (2, 100, 30))
        self.assertLess(abs(head["timestamp"] - time.time()), 60 * SLOW)
        text = "".join(e[2] for e in events if e[1] == "o")
        self.assertIn("wörld\r\n13\r\n", text)
        self.assertIn("\ufffd", text)
        self.assertNotIn("typed-secret", text)
        self.assertIn("120x40", [e[2] for e in events if e[1] == "r"])
        times = [e[0] for e in events]
        self.assertEqual(times, sorted(times))
        types = [e["type"] for e in settled(self.i) if e["sandbox"] == box]
        self.assertIn("recording.start", types)

    def test_only_when_asked_for(self):
        box = self.i.create()
        self.finish(self.terminal(box, command="echo hello"))
        self.assertEqual(self.listed(box), [])
        r = self.i.api("GET", f"/v1/sandboxes/{box}/recordings/1-1")
        self.assertEqual(r.status, 404)

    def test_outlives_its_sandbox_and_is_removed(self):
        box = self.i.create()
        self.finish(self.terminal(box, command="echo kept", record="true"))
        self.i.rm(box)
        one, = self.listed(box)
        self.assertEqual(one["process"], self.started["number"])
        text = "".join(e[2] for e in self.cast(box)[1])
        self.assertIn("kept", text)
        path = f"/v1/sandboxes/{box}/recordings/{one['id']}"
        self.assertEqual(self.i.api("DELETE", path).status, 204)
        self.assertEqual(self.i.api("DELETE", path).status, 404)
        self.assertEqual(self.listed(box), [])

    def test_projects_have_their_own(self):
        keys = {}
        for p in ("red", "blue"):
            r = self.i.api("POST", "/v1/keys", {"name": p, "project": p,
                                                "scope": "admin"})
            keys[p] = {"Authorization": f"Bearer {r.json['key']}"}
        box = self.i.api("POST", "/v1/sandboxes", {}, keys["red"]).json["id"]
        self.finish(self.terminal(box, command="echo red", record="true"))
        one, = self.listed(box, keys["red"])
        path = f"/v1/sandboxes/{box}/recordings"
        for gone in (False, True):
            if gone:
                self.i.rm(box)
            r = self.i.api("GET", path, headers=keys["blue"])
            self.assertIn(r.json.get("recordings", []), ([],))
            for method in ("GET", "DELETE"):
                r = self.i.api(method, f"{path}/{one['id']}",
                               headers=keys["blue"])
                self.assertEqual(r.status, 404)
        self.assertEqual(len(self.listed(box, keys["red"])), 1)

    def test_names_are_not_paths(self):
        box = self.i.create()
        for name in ("..", "%2e%2e%2fregistry", "registry.db", "a_b", "1-1.cast",
                     "0000000000001-1"):
            r = self.i.api("GET", f"/v1/sandboxes/{box}/recordings/{name}")
            self.assertIn(r.status, (400, 404), name)

    def test_a_project_has_a_share(self):
        where = f"{self.i.state_dir}/casts"
        st = os.stat(where)
        self.assertEqual(stat.S_IMODE(st.st_mode), 0o700)
        box = self.i.create()
        other = f"other_{box}_0000000000001-1.cast"
        names = [f"default_{box}_{n:013d}-1.cast" for n in range(1, 251)]
        for name in names + [other]:
            with open(f"{where}/{name}", "w") as f:
                f.write("{}\n")
            os.chown(f"{where}/{name}", st.st_uid, st.st_gid)
        self.finish(self.terminal(box, command="echo new", record="true"))
        left = set(os.listdir(where))
        self.assertIn(other, left)
        mine = sorted(n for n in left if n.startswith("default_"))
        self.assertEqual(len(mine), 200)
        self.assertNotIn(names[0], mine)
        self.assertIn(names[-1], mine)
        for name in left:
            os.unlink(f"{where}/{name}")

    def test_no_recording_no_terminal(self):
        where = f"{self.i.state_dir}/casts"
        box = self.i.create()
        os.chmod(where, 0o500)  # the role is not root
        try:
            with self.assertRaises(websocket.Refused):
                self.terminal(box, command="sleep 1000", record="true")
        finally:
            os.chmod(where, 0o700)
        wait_for("the process is gone", lambda: "sleep 1000" not in
                 self.i.sh(box, "ps -o args").out.replace("ps -o", ""), 5 * SLOW)


if __name__ == "__main__":
    harness.main()
