"""The comparison with others: it can fail, and it counts what is really there.
The comparison itself is `make escape-peers`."""

import os
import subprocess
import tempfile
import unittest

import attack
import filters
import harness
import peers


def allowed():
    text = harness.read(f"{harness.TOP}/tests/unit/data/sandbox-syscalls.txt")
    return {line.split()[1] for line in text.splitlines()}


class Surface(harness.Case):
    def test_filters_of_running_processes(self):
        """What the kernel has installed is the recorded list, no call more."""
        box = self.i.create()
        base = attack.base_of(self.i, box)
        for user in ("user", "root"):
            w = self.i.exec_wire(box)
            w.spawn(["sleep", "300"], user=user)
            pid = harness.wait_for("it runs", lambda: [
                p for p in attack.pids_of(base) if harness.read(
                    f"/proc/{p}/cmdline", " ").startswith("sleep\0")])[0]
            self.assertEqual(filters.surface(pid), allowed(), user)
            w.signal(9)
            w.finish()
            w.close()

    def test_without_a_filter_everything_is_reachable(self):
        p = subprocess.Popen(["sleep", "60"])
        try:
            self.assertEqual(filters.surface(p.pid),
                             set(filters.syscalls().values()))
        finally:
            p.kill()
            p.wait()


class Runner(unittest.TestCase):
    """The runner with peers that take seconds."""

    def judge(self, kind):
        missing = peers.missing([kind])
        if missing:
            self.skipTest(f"not installed: {' '.join(missing)}")
        with tempfile.TemporaryDirectory() as scratch:
            os.chmod(scratch, 0o755)
            return peers.judge(kind, scratch, *peers.make_root(scratch))

    def test_no_sandbox_is_seen(self):
        """Rows and canaries notice that nothing stands."""
        r = self.judge(peers.Nothing)
        rows = {k: v["verdict"] for k, v in r["rows"]["user"].items()}
        for row in "A1 A9 A10 C5 D3 G3 G5 G6".split():
            self.assertEqual(rows[row], "breach", row)
        for row in "A4 B11 B18 D26 F1 F2 F9 G1".split():
            self.assertEqual(rows[row], "gap", row)
        self.assertGreater(len(r["touched"]), 4)
        self.assertEqual(r["facts"]["user"][""]["calls"],
                         len(filters.syscalls()))

    def test_bubblewrap(self):
        """Namespaces hold, and there is no filter behind them."""
        r = self.judge(peers.BwrapAll)
        self.assertEqual(r["touched"], [])
        for who in ("user", "root"):
            rows = {k: v["verdict"] for k, v in r["rows"][who].items()}
            for row in "A9 B11 C5 G3 G5 G6".split():
                self.assertEqual(rows[row], "held", row)
            for row in "A1 D3 D4".split():
                self.assertEqual(rows[row], "breach", row)

    def test_tables_have_every_row(self):
        """Of a result with holes in it, too."""
        fake = {"title": "x", "version": "", "ways": [], "touched": [],
                "facts": {}, "rows": {"user": {"A1": {"verdict": "breach"}},
                                      "root": {"A1": {"verdict": "held"}}}}
        text = "\n".join(peers.markdown([fake]))
        by_name = {r for r, (_, in_all) in attack.rows().items() if not in_all}
        self.assertLessEqual(by_name, {*peers.LIMITED, *peers.LEFT_OUT, "B18"},
                             "is it tried, or left out?")
        for row in attack.rows():
            self.assertEqual(f"\n| {row} |" in text, row not in peers.LEFT_OUT)
        self.assertIn("| A1 | unshare of every namespace | open / held |", text)
        self.assertIn("| open | 1 |", text)


if __name__ == "__main__":
    attack.own_network()
    harness.main()
