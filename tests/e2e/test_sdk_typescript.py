# suite: both
# suite: npm
"""The TypeScript SDK (sdk/typescript): its cases, and its types."""

import filecmp
import json
import os
import subprocess
import tempfile
import unittest

import clients
import harness
from harness import TOP
from internet import Internet
from tcp import certificate

SDK = os.path.join(TOP, "sdk/typescript")
TSC = os.path.join(clients.NPM, "node_modules/.bin/tsc")


class Case(clients.Case):
    def environment(self):
        return {**super().environment(), "CARREL_BIN": self.i.bin}


@clients.cases("sdk.test.mjs", containers={
    "update and timeout": "a machine's limits do not change",
    "fork, diff, merge": "a machine's disk is not looked into",
    "host and images": "a machine's disk is not looked into",
    "volumes": "a machine has none"})
class Sdk(Case):
    pass


@clients.cases("sdk_egress.test.mjs")
class Egress(Case):
    """With a small internet."""

    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.net.web("api.test")
        cls.CONF = cls.net.conf
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.net.close()


class Tls(clients.Case):
    """As another host would come."""

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.cert, key = certificate(cls.dir.name)
        cls.CONF = {"tls_cert": cls.cert, "tls_key": key}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.dir.cleanup()

    def node(self, code, **env):
        return subprocess.run(
            ["node", "--input-type=module", "-e",
             f"import {{ Client, Sandbox }} from '{SDK}/src/index.js';\n{code}"],
            env={"PATH": os.environ["PATH"], "CARREL_API_KEY": self.key(),
                 "CARREL_URL": f"https://127.0.0.1:{self.port}", **env},
            capture_output=True, text=True, timeout=60 * harness.SLOW)

    def test_run_and_terminal(self):
        p = self.node("""
            const box = await Sandbox.create();
            console.log((await box.run('echo $((6*7))')).stdout);
            const t = await box.terminal({ command: 'echo far; exit 3' });
            console.log(await t.readAll(), t.exitCode, await box.url(80));
            await box.kill();
        """, CARREL_CA=self.cert)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertEqual(p.stdout.split()[:3], ["42", "far", "3"])
        self.assertRegex(p.stdout,
                         rf" https://80-i\w+\.localhost:{self.port}/\?")

    def test_an_authority_that_is_not_known(self):
        p = self.node("await new Client({ retries: 0 }).host();")
        self.assertIn("NotReached", p.stderr)


class Types(unittest.TestCase):
    def test_they_are_those_of_the_source(self):
        """types/ is what `tsc` makes of the comments in src/."""
        with tempfile.TemporaryDirectory() as out:
            p = subprocess.run([TSC, "-p", SDK, "--outDir", out],
                               capture_output=True, text=True)
            self.assertEqual(p.returncode, 0, p.stdout)
            got = filecmp.dircmp(out, os.path.join(SDK, "types"))
            self.assertEqual(
                (got.left_only, got.right_only, got.diff_files), ([], [], []),
                "run `tsc -p sdk/typescript`")

    def test_a_program_sees_them(self):
        """One that uses them right, and each line that does not."""
        with tempfile.TemporaryDirectory() as d:
            os.makedirs(os.path.join(d, "node_modules"))
            os.symlink(SDK, os.path.join(d, "node_modules/carrel"))
            with open(os.path.join(d, "use.mts"), "w") as f:
                f.write(PROGRAM)
            with open(os.path.join(d, "tsconfig.json"), "w") as f:
                json.dump({"compilerOptions": {
                    "noEmit": True, "strict": True, "target": "es2022",
                    "module": "node16", "types": [], "lib": ["es2022", "dom"],
                    "skipDefaultLibCheck": True}, "files": ["use.mts"]}, f)
            p = subprocess.run([TSC, "-p", d], capture_output=True, text=True)
            self.assertEqual(p.returncode, 0, p.stdout)


PROGRAM = """
import { Sandbox, Client, CommandError, type Result } from 'carrel';

const client = new Client({ url: 'http://127.0.0.1:1' });
const box: Sandbox = await Sandbox.create({ client, memory: '1G' });
const r: Result = await box.run(['ls'], { check: true, timeout: 5 });
const code: number = r.exitCode;
for await (const out of await box.commands.start('make'))
	out.stream satisfies 'stdout' | 'stderr';
for await (const e of await client.events({ after: code }))
	e.seq satisfies number;
for await (const c of box.diff())
	c.path satisfies string;
const forks: Sandbox[] = await box.fork(3);
(await box.files.list('/')).map((e) => e.modifiedAt satisfies Date | null);
try {
	await forks[0].merge(box, { prefer: 'ours' });
} catch (e) {
	if (e instanceof CommandError)
		e.result.stderr satisfies string;
}
// @ts-expect-error a number is no path
await box.files.read(3);
// @ts-expect-error no such member
await Sandbox.create({ memroy: '1G' });
// @ts-expect-error no such side
await box.merge('x', { prefer: 'mine' });
"""


if __name__ == "__main__":
    harness.main()
