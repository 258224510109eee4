"""docs/limits.md: its numbers are those of the code, none is missing, and at a
limit there is the answer that it promises."""

import contextlib
import functools
import glob
import os
import re
import socket
import unittest

import constants
import harness
from harness import TOP

DOC = "docs/limits.md"
# Where all bounds are between our own processes; and the client's own.
INNER = ("src/wire/", "src/mux/", "src/relay/", "src/guest/", "src/sandbox/",
         "src/base/", "src/gate/within.h", "src/scribe/", "src/audit/spool.h",
         "src/cli/")
# Alone in a header with others: of our own processes, or made of others.
NOT_LIMITS = {"HTTP_READ_MAX", "WS_HEAD_MAX", "LEAVING_MAX", "LAYOUT_PARTS_MAX",
              "CONNS_MAX", "STOCK_MAX", "WORKER_FDS_MAX", "ENTRY_LINE_MAX"}


@functools.cache
def rows():
    """{where it is defined: (its number, what happens at it)}"""
    found = {}
    for line in harness.read(f"{TOP}/{DOC}").splitlines():
        m = re.fullmatch(r"\| (.*) \| `(\S+:\S+)` \|", line)
        if m:
            _, number, at_it = m[1].split(" | ")
            assert m[2] not in found, f"{m[2]} is there twice"
            found[m[2]] = (number, at_it)
    return found


class Numbers(unittest.TestCase):
    maxDiff = None

    def test_numbers_are_those_of_the_code(self):
        self.assertGreater(len(rows()), 200)
        wrong = []
        for ref, (number, _) in rows().items():
            try:
                real = constants.value(ref)
            except (KeyError, TypeError, FileNotFoundError):
                wrong.append(f"{ref}: there is no such thing any more")
                continue
            if constants.said(number) != real:
                wrong.append(f"{ref} is {real}, the document says {number}")
        self.assertEqual(wrong, [])

    def test_every_maximum_of_a_header_is_there(self):
        """A new one gets a row: what happens at it?"""
        missing = []
        for path in sorted(glob.glob(f"{TOP}/src/**/*.h", recursive=True)):
            path = os.path.relpath(path, TOP)
            if path.startswith(INNER):
                continue
            missing += [f"{path}:{name}" for name in constants.constants(path)
                        if name.endswith("_MAX") and name not in NOT_LIMITS
                        and f"{path}:{name}" not in rows()]
        self.assertEqual(missing, [], f"not in {DOC}")

    def test_the_reader_can_tell(self):
        self.assertEqual(constants.said("16 KiB"), 16384)
        self.assertEqual(constants.said("2,000"), 2000)
        self.assertEqual(constants.said("366 days"), 366 * 86400 * 1000)
        self.assertEqual(constants.evaluate("src/wire/frame.h", "2 * SPAWN_MAX"),
                         2 << 20)
        with self.assertRaises(KeyError):
            constants.value("src/wire/frame.h:NO_SUCH_MAX")


def over(ref):
    return int(constants.value(ref)) + 1


def many(ref, item="x{}"):
    return [item.format(i) for i in range(over(ref))]


SPEC = "src/spec/spec.h:SPEC_"
# A spec with one more than the limit allows.
SPECS = {
    "spec:cpus": lambda ref: {"cpus": over(ref)},
    "spec:memory": lambda ref: {"memory": over(ref)},
    "spec:memory:min": lambda ref: {"memory": over(ref) - 2},
    "spec:disk": lambda ref: {"disk": over(ref)},
    "spec:pids": lambda ref: {"pids": over(ref)},
    "spec:pids:min": lambda ref: {"pids": over(ref) - 2},
    "spec:nofile": lambda ref: {"nofile": over(ref)},
    "spec:timeout": lambda ref: {"timeout": f"{over(ref)}ms"},
    "spec:snapshot-keep": lambda ref: {"snapshot-keep": over(ref)},
    SPEC + "ENV_MAX": lambda ref: {"env": dict.fromkeys(many(ref), "x")},
    SPEC + "LABELS_MAX": lambda ref: {"labels": dict.fromkeys(many(ref), "x")},
    SPEC + "PORTS_MAX": lambda ref: {"ports": {
        name: 2000 + i for i, name in enumerate(many(ref))}},
    SPEC + "START_MAX": lambda ref: {"start": many(ref)},
    SPEC + "FILES_MAX": lambda ref: {"files": [
        {"path": p, "content": ""} for p in many(ref, "/tmp/x{}")]},
    SPEC + "FILES_BYTES": lambda ref: {"files": [
        {"path": "/tmp/x", "content": "x" * over(ref)}]},
    SPEC + "DRIVE_MAX": lambda ref: {"drive": many(ref)},
    SPEC + "VOLUMES_MAX": lambda ref: {"volumes": many(ref, "v{0}:/v{0}")},
    SPEC + "RULES_MAX": lambda ref: {"rules": many(ref, "allow * x{}.test")},
    SPEC + "LATE_MAX": lambda ref: {"late-rules": many(ref, "allow * x{}.test")},
    SPEC + "ALLOW_MAX": lambda ref: {"allow": many(ref)},
    SPEC + "SECRETS_MAX": lambda ref: {"secrets": many(ref)},
    SPEC + "CLIENT_BYTES": lambda ref: {"client": {"x": "x" * over(ref)}},
}


class AtTheLimit(harness.Case):
    """What the document promises is what a client hears."""

    def promised(self, ref, status, body):
        text = rows()[ref][1]
        self.assertRegex(text, rf"^(\d\d\d or )?{status}\b", f"{ref}: {body}")
        code = re.search(r"`(\w+)`", text)
        if code and body:
            self.assertEqual(body["error"], code[1], ref)

    def raw(self, ref, request):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20 * harness.SLOW)
            s.connect(self.i.sock)
            s.sendall(request)
            answer = s.recv(65536).decode()
        self.promised(ref, int(answer.split()[1]), None)

    def test_specs(self):
        for ref, make in SPECS.items():
            with self.subTest(ref):
                self.ask(ref, "POST", "/v1/sandboxes", make(ref))
        self.assertEqual(self.i.ids(), [])

    def test_every_limit_of_specs_was_tried(self):
        self.assertEqual({r for r in rows() if r.startswith("spec:") or
                          r.startswith(SPEC)}, set(SPECS))

    def test_heads(self):
        size = over("src/http/parse.h:HTTP_HEAD_MAX")
        fields = "".join(f"X{i}: {'x' * 4000}\r\n" for i in range(size // 4000 + 1))
        get = "GET /v1/host HTTP/1.1\r\nHost: localhost\r\n"
        p = "src/http/parse.h:HTTP_"
        target = "/" + "x" * over(p + "TARGET_MAX")
        many_fields = "".join(f"X{i}: x\r\n" for i in range(over(p + "FIELDS_MAX")))
        for ref, text in (
                ("HEAD_MAX", get + fields),
                ("LINE_MAX", f"GET /{'x' * over(p + 'LINE_MAX')} HTTP/1.1\r\n"),
                ("LINE_MAX", get + f"X: {'x' * over(p + 'LINE_MAX')}\r\n"),
                ("TARGET_MAX", f"GET {target} HTTP/1.1\r\nHost: localhost\r\n"),
                ("METHOD_MAX", "X" * over(p + "METHOD_MAX") +
                 " / HTTP/1.1\r\nHost: localhost\r\n"),
                ("FIELDS_MAX", get + many_fields)):
            with self.subTest(ref):
                self.raw(p + ref, (text + "\r\n").encode())

    def ask(self, ref, method, path, body, **headers):
        r = self.i.api(method, path, body, headers)
        self.promised(ref, r.status, r.json)

    def test_bodies(self):
        ref = "src/api/api.h:JSON_DEPTH_MAX"
        deep = over(ref)
        self.ask(ref, "POST", "/v1/sandboxes",
                 b'{"labels":' * deep + b"1" + b"}" * deep)
        ref = "src/api/api.h:BODY_MAX"
        self.ask(ref, "POST", "/v1/sandboxes", {"x": "x" * over(ref)})
        ref = "src/api/h_volume.c:VOLUME_MAX"
        self.ask(ref, "POST", "/v1/volumes", {"name": "v", "size": over(ref)})
        ref = "src/vault/secret.h:SECRET_HOSTS_MAX"
        self.ask(ref, "PUT", "/v1/secrets/x", {
            "kind": "header", "hosts": many(ref, "x{}.test"), "field": "X",
            "template": "{}", "sealed": "x"})

    def test_policies(self):
        policy = "src/policy/policy.h:POLICY_"
        for ref, line in ((policy + "RULES_MAX", "allow * x{}.test\n"),
                          (policy + "BUDGETS_MAX", "budget x{}.test up 1MB\n"),
                          (policy + "PRIVATE_MAX", "private 10.0.0.{}\n")):
            with self.subTest(ref):
                self.ask(ref, "PUT", "/v1/policies/p", "".join(many(ref, line)))
        for ref in (policy + "TEXT_MAX", "src/api/policies.h:SAVED_POLICY_MAX"):
            with self.subTest(ref):
                self.ask(ref, "PUT", "/v1/policies/p", "#" + "x" * over(ref))

    def test_counts(self):
        """As many as there may be, and then one more."""
        ref = "src/api/policies.h:POLICIES_OF_PROJECT"
        for i in range(over(ref) - 1):
            r = self.i.api("PUT", f"/v1/policies/p{i}", b"allow * x.test\n")
            self.assertEqual(r.status, 200, r)
        self.ask(ref, "PUT", "/v1/policies/more", b"allow * x.test\n")

    def test_wrong_keys(self):
        """Tries come back with time: it may take a few more than the number."""
        ref = "src/api/auth.c:WRONG_MAX"
        answers = []
        while not answers or answers[-1].status == 401 and len(answers) < 100:
            answers.append(self.i.api("GET", "/v1/host", None,
                                      {"X-API-Key": "wrong"}))
        self.assertGreaterEqual(len(answers), over(ref))
        self.promised(ref, answers[-1].status, answers[-1].json)
        self.assertEqual(self.i.api("GET", "/v1/host").status, 200)

    def test_readers_of_the_log(self):
        ref = "src/api/event.h:READERS_MAX"
        request = (b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n"
                   b"Accept: text/event-stream\r\n\r\n")
        with contextlib.ExitStack() as held:
            # A shared pool: operators have half of it.
            for _ in range(over(ref) // 2):
                s = held.enter_context(socket.socket(socket.AF_UNIX))
                s.settimeout(20 * harness.SLOW)
                s.connect(self.i.sock)
                s.sendall(request)
                self.assertIn(b" 200 ", s.recv(4096))
            self.raw(ref, request)

    def test_drive(self):
        ref = "src/spec/grant.h:DRIVE_PATH_MAX"
        files = "/v1/drive/files/"
        self.ask(ref, "PUT", files + "x/" * (over(ref) // 2) + "x", b"x")
        ref = "src/spec/grant.h:DRIVE_PART_MAX"
        self.ask(ref, "PUT", files + "x" * over(ref), b"x")
        ref = "src/api/drive.h:DRIVE_LIST_MAX"
        self.ask(ref, "GET", f"/v1/drive?limit={over(ref)}", None)

    def test_inside(self):
        box = f"/v1/sandboxes/{self.i.create()}"
        ref = "src/wire/warden.h:SNAPSHOT_COPIES_MAX"
        self.ask(ref, "POST", f"{box}/fork", {"count": over(ref)})
        ref = "src/api/proc_json.h:RUN_OUTPUT_MAX"
        self.ask(ref, "POST", f"{box}/run",
                 {"command": "true", "max_output": over(ref)})
        ref = "src/api/proc_run.c:RUN_BODY_MAX"
        self.ask(ref, "POST", f"{box}/run", {"command": "x" * over(ref)})
        ref = "src/wire/file.h:FILE_DEPTH_MAX"
        self.ask(ref, "GET", f"{box}/files/list?path=/&depth={over(ref)}", None)

    def test_mcp(self):
        ref = "src/api/mcp/mcp.h:MCP_MESSAGE_MAX"
        self.raw(ref, b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
                 b"Content-Type: application/json\r\nContent-Length: %d\r\n"
                 b"Accept: application/json, text/event-stream\r\n\r\n" %
                 over(ref))


if __name__ == "__main__":
    harness.main()
