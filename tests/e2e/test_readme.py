# suite: debian
# suite: npm
"""What README says about clients, copied from it and run: E2B, MCP, Python,
TypeScript."""

import json
import os
import re
import shutil
import subprocess
import tempfile

import clients
import harness
from harness import TOP

MCP = """
import { createRequire } from 'node:module';
const need = createRequire(process.env.CARREL_NPM + '/');
const { Client } = need('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = need('@modelcontextprotocol/sdk/client/stdio.js');
const { command, args } = JSON.parse(process.argv[2]);
const client = new Client({ name: 'readme', version: '1' });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const r = await client.callTool({ name: 'run_command',
	arguments: { command: 'echo $((6 * 7))' } });
console.log(r.content.map((c) => c.text).join(''));
await client.close();
"""


def snippets(language):
    with open(os.path.join(TOP, "README.md")) as f:
        return re.findall(rf"^```{language}\n(.*?)^```", f.read(), re.M | re.S)


class Readme(clients.Case):
    IMAGE = "debian"

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="creadme")
        self.addCleanup(shutil.rmtree, self.dir)
        self.env = {**self.i.env(), "CARREL_NPM": clients.NPM,
                    "CARREL_CONFIG": self.i.config}

    def run_it(self, *argv, **env):
        p = subprocess.run(argv, cwd=self.dir, env={**self.env, **env},
                           capture_output=True, text=True, timeout=60)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        return p.stdout

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(text)
        return name

    def module(self, name, path):
        """As npm install does it."""
        os.makedirs(f"{self.dir}/node_modules", exist_ok=True)
        os.symlink(path, f"{self.dir}/node_modules/{name}")

    def test_e2b(self):
        shell, = snippets("sh")
        self.assertIn('eval "$(carrel e2b env)"\n', shell)
        code, = snippets("js")
        self.module("e2b", f"{clients.NPM}/node_modules/e2b")
        self.write("snippet.mjs", code)
        out = self.run_it("bash", "-ec",
                          'eval "$(carrel e2b env)"; node snippet.mjs')
        self.assertEqual(out, "42\n\n")

    def test_mcp(self):
        config, = [s for s in snippets("json") if "mcpServers" in s]
        server = json.loads(config)["mcpServers"]["carrel"]
        self.assertEqual(server["command"], "carrel")
        out = self.run_it("node", self.write("client.mjs", MCP),
                          json.dumps(server))
        self.assertIn("42", out)

    def test_python(self):
        code, = snippets("python")
        for _ in range(2):  # nothing is in the way of a second run
            out = self.run_it("/usr/bin/python3",
                              self.write("snippet.py", code),
                              PYTHONPATH=os.path.join(TOP, "sdk/python"))
            self.assertEqual(out, "42\n" * 3)

    def test_typescript(self):
        code, = snippets("ts")
        self.module("carrel", os.path.join(TOP, "sdk/typescript"))
        # It is JavaScript, too; that its types are right is told by tsc.
        out = self.run_it("node", self.write("snippet.mjs", code))
        self.assertEqual(out, "42\n")
        self.write("snippet.mts", code)
        self.run_it("node", f"{clients.NPM}/node_modules/typescript/bin/tsc",
                    "--noEmit", "--strict", "--module", "nodenext", "--target",
                    "esnext", "--skipLibCheck", "snippet.mts",
                    self.write("process.d.ts", "declare const process: any;"))


if __name__ == "__main__":
    harness.main()
