# suite: both
# suite: npm
"""The tools and resources of /mcp, with the official client and by hand. What
needs a person is in test_access.py."""

import json
import threading

import clients
import harness
import mcp
from harness import SLOW, wait_for


@clients.cases("mcp_tools.test.mjs")
class Tools(clients.Case):
    def test_the_session_leaves_nothing(self):
        """The cases have run, and ended their session."""
        self.check_case("mcp_tools.test.mjs", "", "the log is a resource")
        wait_for("its sandboxes go", lambda: not self.boxes(), 20 * SLOW)

    def boxes(self):
        return [b["id"] for b in
                self.i.api("GET", "/v1/sandboxes").json["sandboxes"]]

    def test_what_is_others_stays_theirs(self):
        """A session may go on in a sandbox that it did not make."""
        box = self.i.create(name="theirs")
        self.addCleanup(self.i.rm, box)
        s = mcp.Session(self.i.sock)
        s.tool("write_file", path="a", content="mine")
        mine = json.loads(s.tool("sandbox_info")["content"][0]["text"])["id"]
        s.tool("switch_sandbox", sandbox="theirs")
        r = s.tool("fork")
        copy = next(b for b in self.boxes() if b not in (box, mine))
        self.addCleanup(self.i.rm, copy)
        self.assertIn(copy, r["content"][0]["text"])
        self.assertEqual(s.end(), 204)
        self.assertEqual(set(self.boxes()), {box, copy})


    def session(self, scope, box):
        key = self.i.cli("key", "create", "--scope", scope, check=0).out.strip()
        s = mcp.Session(self.i.sock, query=f"?sandbox={box}",
                        headers={"Authorization": f"Bearer {key}"})
        self.addCleanup(s.end)
        return s

    def test_a_key_that_may_only_read(self):
        box = self.i.create()
        self.addCleanup(self.i.rm, box)
        may = self.session("use", box)
        may.tool("write_file", path="a", content="there")
        s = self.session("read", box)
        r = s.tool("read_file", path="a")
        self.assertEqual(r["content"][0]["text"], "there", r)
        for name, args in (("write_file", {"path": "a", "content": "b"}),
                           ("run_command", {"command": "true"}),
                           ("snapshot", {}), ("fork", {}),
                           ("preview_port", {"port": 80}),
                           ("request_access", {"url": "a.test",
                                               "reason": "r"})):
            r = s.tool(name, **args)
            self.assertTrue(r.get("isError"), (name, r))
            self.assertIn("tell the user", r["content"][0]["text"])
        self.assertEqual(may.tool("read_file", path="a")["content"][0]["text"],
                         "there")

    def test_a_command_ends_with_its_session(self):
        box = self.i.create()
        self.addCleanup(self.i.rm, box)
        s = mcp.Session(self.i.sock, query=f"?sandbox={box}")
        waits = threading.Thread(target=s.tool, daemon=True,
                                 args=("run_command",),
                                 kwargs={"command": "exec sleep 7100"})
        waits.start()
        wait_for("it runs", lambda: self.running(box), 20 * SLOW)
        self.assertEqual(s.end(), 204)
        wait_for("it is gone", lambda: not self.running(box), 20 * SLOW)
        waits.join(20 * SLOW)

    def running(self, box):
        r = self.i.api("GET", f"/v1/sandboxes/{box}/processes")
        return [p for p in r.json["processes"] if p["state"] == "running"]

    def test_one_that_is_paused_is_woken(self):
        box = self.i.create()
        self.addCleanup(self.i.rm, box)
        s = self.session("use", box)
        self.i.api("POST", f"/v1/sandboxes/{box}/pause", {})
        r = s.tool("run_command", command="echo awake")
        self.assertTrue(r["content"][0]["text"].startswith("awake\n"), r)


if __name__ == "__main__":
    harness.main()
