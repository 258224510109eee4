# suite: both
# suite: slow
# suite: interpreter
# suite: npm
"""The image code-interpreter: what its server on port 49999 does with code,
asked through the native API. tests/clients has the same through E2B's SDK."""

import json
import os
import queue
import shutil
import sys
import unittest
from unittest import mock

import clients
import harness
from test_examples import run_example


@clients.cases("interpreter.test.mjs")
class Sdk(clients.Case):
    IMAGE = "code-interpreter"
    CONF = {"memory": "1G", "disk": "1G", "pool_size": "4G"}


class Said:
    def __init__(self):
        self.lines = []

    def send(self, line):
        self.lines.append(line)

    def text(self):
        return "".join(x.get("text", "") for x in self.lines)


@unittest.skipUnless(shutil.which("jq"), "no jq")
class Bash(unittest.TestCase):
    """The kernel alone, as it is in the sources."""

    def setUp(self):
        sys.path.insert(0, os.path.join(
            harness.TOP, "images/code-interpreter/server"))
        self.addCleanup(sys.path.pop, 0)
        import line_kernel
        self.kernel = line_kernel.bash("/")
        self.addCleanup(self.kernel.stop)

    def run_code(self, code, **env):
        said = Said()
        self.kernel.run(code, env, said)
        return said.text()

    def test_environment_is_as_before(self):
        before = self.run_code("Q='a  b'; echo $PATH")
        self.assertEqual(self.run_code("echo $PATH $Q", PATH="/bin", Q="1"),
                         "/bin 1\n")
        self.assertEqual(self.run_code('echo "$PATH"'), before)
        self.assertEqual(self.run_code('echo "$Q"'), "a  b\n")
        self.run_code("PATH=/nowhere")
        self.assertEqual(self.run_code("echo here"), "here\n")

    def test_its_descriptors_are_closed_once(self):
        self.kernel.stop()
        pipe = os.pipe()  # with the numbers that were let go of
        self.kernel.stop()
        for fd in pipe:
            os.close(fd)


class Published(unittest.TestCase):
    """Python's kernel, of which messages get lost."""

    def test_an_end_that_is_lost(self):
        reply = {"parent_header": {"msg_id": "1"}}
        client = mock.Mock()
        client.execute.return_value = "1"
        client.get_iopub_msg.side_effect = [
            {**reply, "msg_type": "stream",
             "content": {"name": "stdout", "text": "some\n"}},
            queue.Empty, queue.Empty]
        client.get_shell_msg.side_effect = [
            {"parent_header": {"msg_id": "0"}}, queue.Empty, reply]
        where = os.path.join(harness.TOP, "images/code-interpreter/server")
        with mock.patch.dict(sys.modules, jupyter_client=mock.Mock()), \
                mock.patch.object(sys, "path", [where, *sys.path]):
            import python_kernel
        kernel = python_kernel.Kernel.__new__(python_kernel.Kernel)
        kernel.client, kernel.manager, said = client, mock.Mock(), Said()
        kernel.run("1", {}, said)
        self.assertRegex(said.text(), "some\n.output was lost")


class Interpreter(harness.Case):
    IMAGE = "code-interpreter"
    CONF = {"memory": "1G", "disk": "1G", "pool_size": "4G"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.box = cls.i.create()
        cls.at = f"/v1/sandboxes/{cls.box}/ports/49999"
        harness.wait_for("the server", lambda: cls.i.api(
            "GET", cls.at + "/health").status == 200, timeout=60)

    def tearDown(self):
        pass

    def ask(self, method, path, body=None, want=200):
        r = self.i.api(method, self.at + path, body, timeout=90)
        self.assertEqual(r.status, want, r)
        return r

    def execute(self, code, want=200, **more):
        r = self.ask("POST", "/execute", {"code": code, **more}, want)
        return [json.loads(line) for line in r.body.splitlines()]

    def lines(self, kind, code, **more):
        found = self.execute(code, **more)
        self.assertEqual(found[-1], {"type": "end_of_execution"}, found)
        return [x for x in found if x["type"] == kind]

    def context(self, **ask):
        return self.ask("POST", "/contexts", ask).json["id"]

    def text(self, kind, code, **more):
        return "".join(x["text"] for x in self.lines(kind, code, **more))

    def test_python_keeps_its_state(self):
        self.execute("x = 41")
        (r,) = self.lines("result", "x + 1")
        self.assertEqual((r["text"], r["is_main_result"]), ("42", True))

    def test_example_data_analysis(self):
        chart = os.path.join(self.i.dir, "chart.png")
        code, out = run_example(self.i, sys.executable, "data_analysis.py",
                                chart)
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"Bern +\d+\nUlm +\d+\nGraz +\d+\n")
        with open(chart, "rb") as f:
            self.assertEqual(f.read(8), b"\x89PNG\r\n\x1a\n")

    def test_python_streams(self):
        code = "import sys; print('out'); print('err', file=sys.stderr)"
        self.assertEqual(self.text("stdout", code), "out\n")
        self.assertEqual(self.text("stderr", code), "err\n")

    def test_executions_are_counted(self):
        id = self.context()
        for n in (1, 2):
            (r,) = self.lines("number_of_executions", "1", context_id=id)
            self.assertEqual(r["execution_count"], n)

    def test_python_error(self):
        (r,) = self.lines("error", "def f():\n    return 1 / 0\nf()")
        self.assertEqual((r["name"], r["value"]),
                         ("ZeroDivisionError", "division by zero"))
        self.assertIn("return 1 / 0", r["traceback"])
        self.assertNotIn("\x1b", r["traceback"])
        # What is asked at once after an error is done, too.
        for _ in range(3):
            self.execute("1 / 0")
            self.assertEqual(self.text("stdout", "print('here')"), "here\n")

    def test_rich_results(self):
        code = ("from IPython.display import *\n"
                "display(HTML('<b>x</b>'), Markdown('*y*'), SVG('<svg/>'), "
                "JSON({'a': 1}), Latex('$z$'), Javascript('1'))")
        found = {k: r[k] for r in self.lines("result", code)
                 for k in ("html", "markdown", "svg", "json", "latex",
                           "javascript") if k in r}
        self.assertEqual(found, {"html": "<b>x</b>", "markdown": "*y*",
                                 "svg": "<svg/>", "json": {"a": 1},
                                 "latex": "$z$", "javascript": "1"})

    def test_chart_is_a_png(self):
        (r,) = self.lines("result", "import matplotlib.pyplot as plt\n"
                          "plt.plot([1, 2, 3])\nplt.show()")
        self.assertTrue(r["png"].startswith("iVBORw0KGgo"), r["png"][:40])

    def test_data_frame(self):
        (r,) = self.lines("result", "import pandas as pd\n"
                          "pd.DataFrame({'a': [1, 2], 'b': ['x', None]})")
        self.assertEqual(r["data"], {"a": [1, 2], "b": ["x", None]})
        self.assertIn("<table", r["html"])

    def test_contexts_do_not_share(self):
        a, b = self.context(), self.context(cwd="/tmp")
        self.execute("y = 1", context_id=a)
        (r,) = self.lines("error", "y", context_id=b)
        self.assertEqual(r["name"], "NameError")
        self.assertEqual(self.text("stdout", "import os; print(os.getcwd())",
                                   context_id=b), "/tmp\n")

    def test_contexts_are_listed_and_dropped(self):
        id = self.context(language="bash", cwd="/tmp")
        self.assertIn({"id": id, "language": "bash", "cwd": "/tmp"},
                      self.ask("GET", "/contexts").json)
        self.ask("DELETE", f"/contexts/{id}", want=204)
        self.ask("POST", "/execute", {"code": "1", "context_id": id}, 404)

    def test_restart_forgets(self):
        id = self.context()
        self.execute("z = 1", context_id=id)
        self.ask("POST", f"/contexts/{id}/restart")
        (r,) = self.lines("error", "z", context_id=id)
        self.assertEqual(r["name"], "NameError")

    def test_a_killed_kernel_comes_back(self):
        id = self.context()
        (r,) = self.lines("error", "import os; os.kill(os.getpid(), 9)",
                          context_id=id)
        self.assertEqual(r["name"], "KernelDied")
        self.assertEqual(self.text("stdout", "print(1)", context_id=id), "1\n")

    def test_environment_of_one_run(self):
        for language, code in (("python", "import os; print(os.environ.get('Q'))"),
                               ("javascript", "console.log(process.env.Q)"),
                               ("bash", "echo ${Q-none}")):
            with self.subTest(language):
                self.assertEqual(self.text("stdout", code, language=language,
                                           env_vars={"Q": "a b"}), "a b\n")
                self.assertNotIn("a b", self.text("stdout", code,
                                                  language=language))

    def test_javascript(self):
        id = self.context(language="javascript")
        self.execute("const a = await Promise.resolve(20); let b = 1",
                     context_id=id)
        (r,) = self.lines("result", "a * 2 + b", context_id=id)
        self.assertEqual(r["text"], "41")
        self.assertEqual(self.text("stdout", "console.log('é')",
                                   context_id=id), "é\n")
        (r,) = self.lines("error", "throw new TypeError('no')", context_id=id)
        self.assertEqual((r["name"], r["value"]), ("TypeError", "no"))

    def test_bash(self):
        id = self.context(language="bash")
        self.execute("cd /tmp; v=1; f() { echo \"$v$1\"; }", context_id=id)
        self.assertEqual(self.text("stdout", "f é; pwd", context_id=id),
                         "1é\n/tmp\n")
        (r,) = self.lines("error", "(exit 3)", context_id=id)
        self.assertEqual((r["name"], r["value"]), ("ExitStatus", "3"))

    def test_unknown_language(self):
        r = self.ask("POST", "/execute", {"code": "1", "language": "cobol"}, 400)
        self.assertIn("python, javascript, bash", r.body.decode())

    def test_bad_requests(self):
        self.ask("POST", "/execute", {"code": 1}, 400)
        self.ask("POST", "/execute", {"code": "1", "language": "python",
                                      "context_id": "x"}, 400)
        self.ask("POST", "/contexts", {"cwd": "/not/there"}, 400)
        self.ask("GET", "/nothing", want=404)

    def test_client_that_leaves_interrupts(self):
        for language, code in (
                ("python", "import time\nwhile True: time.sleep(0.1)"),
                ("javascript", "for (;;) ;"), ("bash", "sleep 1000")):
            with self.subTest(language):
                id = self.context(language=language)
                conn = harness.UnixHTTP(self.i.sock)
                conn.request("POST", self.at + "/execute", json.dumps(
                    {"code": code, "context_id": id}),
                    {"Content-Type": "application/json"})
                r = conn.getresponse()
                r.readline()  # it has begun
                conn.sock.close()
                r.close()
                conn.close()
                self.assertEqual(self.lines(
                    "end_of_execution", "1" if language != "bash" else ":",
                    context_id=id), [{"type": "end_of_execution"}])


if __name__ == "__main__":
    harness.main()
