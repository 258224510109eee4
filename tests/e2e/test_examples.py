"""examples/: each runs as its reader would run it. data_analysis.py needs the
code interpreter and is run by test_interpreter.py."""

import os
import shutil
import subprocess
import sys
import unittest

import harness
from harness import SLOW, TOP

EXAMPLES = os.path.join(TOP, "examples")


def run_example(instance, *argv, timeout=120):
    """(exit code, what it printed)"""
    env = {**instance.env(), "PYTHONPATH": os.path.join(TOP, "sdk/python"),
           "PYTHONUNBUFFERED": "1"}
    p = subprocess.run(argv, cwd=EXAMPLES, env=env, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=timeout * SLOW)
    return p.returncode, p.stdout


class Examples(harness.Case):
    def works(self, *argv, says):
        code, out = run_example(self.i, *argv)
        self.assertEqual(code, 0, out)
        for text in says:
            self.assertIn(text, out)
        self.assertEqual(self.i.ids(), [], "it left a sandbox")

    def python(self, name, *says):
        self.works(sys.executable, name, says=says)

    def test_agent_loop(self):
        for _ in range(2):  # nothing is in the way of a second run
            self.python("agent_loop.py", "'one': 0, not 1", "all tests pass",
                        "changed /home/user/words.sh",
                        "snapshots to go back to: ")

    @unittest.skipUnless(shutil.which("node"), "no Node on this machine")
    def test_agent_loop_in_node(self):
        self.works("node", "agent_loop.mjs",
                   says=["42", "No such file", "adds two numbers"])

    def test_branch_and_pick(self):
        self.python("branch_and_pick.py", "loop: right", "hasty: wrong for 1",
                    "picked formula: the sum of 1 to 100 is 5050")

    def test_mcp_session(self):
        self.python("mcp_session.py", "run_command", "hello, world",
                    "good morning, world", "greet.sh",
                    "the server exited with 0")

    def test_data_analysis_without_its_image(self):
        code, out = run_example(self.i, sys.executable, "data_analysis.py")
        self.assertEqual(code, 77, out)
        self.assertIn("SKIPPED", out)


if __name__ == "__main__":
    harness.main()
