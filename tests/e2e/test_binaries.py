"""How the programs that we ship were compiled and linked (tools/binaries.sh),
that it would be seen if one were not, and what that does to a running one."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness

LOOK = os.path.join(harness.TOP, "tools/binaries.sh")
PROGRAMS = ("carrel", "carreld", "carrel-api", "carrel-warden", "carrel-scribe",
            "carrel-gate", "carrel-fetch", "carrel-worker", "carrel-agent",
            "carrel-sudo", "carrel-guest", "carrel-relay")
COMPILE = ("-g -std=gnu11 -O2 -fPIE -fstack-protector-strong "
           "-fstack-clash-protection -fcf-protection=full -fno-strict-overflow "
           "-fno-strict-aliasing -fno-delete-null-pointer-checks "
           "-ftrivial-auto-var-init=zero -fzero-call-used-regs=used-gpr "
           "-D_FORTIFY_SOURCE=3").split()
LINK = ("-pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code").split()
SOURCE = r"""
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	char text[64], *p = malloc((size_t)argc + 8);

	(void)!fgets(text, (int)sizeof(text), stdin);
	if (!p)
		return 1;
	memcpy(p, text, (size_t)argc + 8 + (argc > 1 ? strlen(argv[1]) : 0));
	if (argc > 2)
		memset((char *)text + argc, 'x', strlen(argv[2]));
	printf("%s %c\n", text, p[0]);
	free(p);
	return 0;
}
"""
OWN_CODE = """
	.section .own, "awx", @progbits
	.byte 0xc3
	.section .note.GNU-stack, "", @progbits
"""
# A program that stands in, what it is made without (or with), the complaint.
FLAWS = (
    ("carrel", [], ["-Wl,--no-as-needed", "-lz"], "links libz.so.1"),
    ("carreld", ["-pie", "-fPIE"], ["-no-pie", "-fno-pie"], "is not a PIE"),
    ("carreld", ["-pie", "-fPIE"], ["-no-pie", "-fno-pie"],
     "was compiled without -fPIE"),
    ("carrel-api", ["-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code"],
     ["-Wl,-z,relro,-z,lazy"], "binds lazily"),
    ("carrel-warden", ["-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code"],
     ["-Wl,-z,norelro,-z,now"], "has no RELRO"),
    ("carrel-scribe", [], ["-Wl,-z,execstack"], "has an executable stack"),
    ("carrel-gate", [], ["own_code.s"], "has a writable code segment"),
    ("carrel-fetch", [], ["-Wl,-rpath,/tmp"],
     "looks for libraries in a path of its own"),
    ("carrel-worker", ["-fstack-protector-strong"], ["-fno-stack-protector"],
     "does not guard its stack"),
    ("carrel-agent", ["-fcf-protection=full"], ["-fcf-protection=none"],
     "has no landing pads"),
    ("carrel-agent", [], [], "has an interpreter"),
    ("carrel-agent", [], [], "is not static"),
    ("carrel-agent", [], [], "leaves its RELRO writable"),
    ("carrel-sudo", ["-g"], [], "does not say how it was compiled"),
    ("carrel-guest", ["-D_FORTIFY_SOURCE=3"], ["-U_FORTIFY_SOURCE"],
     "is not fortified"),
)


def make(where, name, without, more):
    for file, text in (("source.c", SOURCE), ("own_code.s", OWN_CODE)):
        with open(os.path.join(where, file), "w") as f:
            f.write(text)
    flags = [x for x in COMPILE + LINK if x not in without]
    subprocess.run(["gcc", *flags, "-o", f"bin/{name}", "source.c", *more],
                   cwd=where, check=True, capture_output=True)


def look(where):
    p = subprocess.run([LOOK, where], capture_output=True, text=True)
    return p.returncode, p.stdout + p.stderr


class Binaries(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="carrel-bin-")
        self.addCleanup(shutil.rmtree, self.dir)
        os.mkdir(f"{self.dir}/bin")

    def test_what_we_ship(self):
        self.assertEqual(look(os.path.join(harness.TOP, "build/bin")), (0, ""))

    def test_each_flaw_is_seen(self):
        made = {}
        for name, without, more, _ in FLAWS:
            made.setdefault(name, (set(), []))
            made[name][0].update(without)
            made[name][1].extend(x for x in more if x not in made[name][1])
        for name, (without, more) in made.items():
            make(self.dir, name, without, more)
        rc, text = look(f"{self.dir}/bin")
        self.assertEqual(rc, 1, text)
        for name, _, _, complaint in FLAWS:
            self.assertIn(f"/{name}: {complaint}", text)

    def test_each_flag_of_the_compiler_is_seen(self):
        flags = [x for x in COMPILE if x.startswith(("-f", "-O"))]
        for flag, name in zip(flags, PROGRAMS):
            make(self.dir, name, [flag], ["-O1"] if flag == "-O2" else [])
        rc, text = look(f"{self.dir}/bin")
        self.assertEqual(rc, 1)
        for flag, name in zip(flags, PROGRAMS):
            self.assertIn(f"/{name}: was compiled without {flag}\n", text)

    def test_missing_and_unknown_programs_are_seen(self):
        make(self.dir, "carreld", [], [])
        make(self.dir, "carrel-new", [], [])
        rc, text = look(f"{self.dir}/bin")
        self.assertEqual(rc, 1)
        self.assertNotIn("/carreld:", text)
        self.assertIn("/carrel-new: is not in the table", text)
        for name in PROGRAMS:
            if name != "carreld":
                self.assertIn(f"/{name}: not built", text)

    def test_the_guards_work(self):
        """With the same flags: a heap whose size is known only when it runs
        (FORTIFY 3; 2 would not see it), and the stack."""
        make(self.dir, "carreld", [], [])
        program = f"{self.dir}/bin/carreld"

        def run(*args):
            return subprocess.run([program, *args], input="abc\n", text=True,
                                  capture_output=True)
        self.assertEqual(run().returncode, 0)
        p = run("too long")
        self.assertEqual(p.returncode, -signal.SIGABRT, p)
        self.assertIn("buffer overflow detected", p.stderr)

    def test_the_makefile_asks_for_the_third_level(self):
        p = subprocess.run(["make", "-n", "-B", "V=1", "build/dyn/src/base/err.o"],
                           cwd=harness.TOP, capture_output=True, text=True)
        line = [x for x in p.stdout.splitlines() if "src/base/err.c" in x][-1]
        self.assertIn(" -D_FORTIFY_SOURCE=3 ", line)
        self.assertNotIn("-U_FORTIFY_SOURCE", line)


class Running(harness.Case):
    CONF = {"pool_size": "512M"}

    def maps(self, pid):
        return [line.split() for line in
                harness.read(f"/proc/{pid}/maps", "").splitlines()]

    def test_nothing_is_writable_and_executable(self):
        self.i.create()
        agents = [p for p in self.i.box_pids()]
        self.assertTrue(agents)
        for pid in agents + sum(self.i.pids().values(), []):
            self.assertEqual([], [m for m in self.maps(pid) if
                                  "w" in m[1] and "x" in m[1]], pid)

    def test_the_agents_tables_are_read_only_and_elsewhere_each_time(self):
        """A static program has nobody who protects them for it."""
        bases = set()
        for _ in range(2):
            self.i.create()
        for pid in self.i.box_pids():
            own = [m for m in self.maps(pid) if len(m) > 5 and
                   m[5].startswith("/memfd:agent")]
            if not own:
                continue
            # code, constants, what was relocated, data
            self.assertEqual([m[1] for m in own],
                             ["r--p", "r-xp", "r--p", "r--p", "rw-p"])
            bases.add(own[0][0])
        # Children that are made ahead are copies of theirs.
        self.assertEqual(len(bases), 2)

    def test_programs_have_addresses_of_chance(self):
        api = self.i.pids()["carrel-api"][0]
        before = re.match(r"\w+", harness.read(f"/proc/{api}/maps"))[0]
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        api = self.i.pids()["carrel-api"][0]
        self.assertNotEqual(
            before, re.match(r"\w+", harness.read(f"/proc/{api}/maps"))[0])


if __name__ == "__main__":
    harness.main()
