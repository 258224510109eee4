# suite: npm
"""The OpenAPI document: an npm linter has nothing to say about it, it names
every path that there is, and real answers look as it says."""

import json
import os
import subprocess
import unittest

import harness
from harness import TOP, Instance

CLIENTS = os.path.join(TOP, "tests/clients")
NPM = os.path.join(TOP, "build/npm")


def node(script, *args, timeout=120, flags=()):
    return subprocess.run(
        ["node", *flags, os.path.join(CLIENTS, script), *args], timeout=timeout,
        env={**os.environ, "NODE_PATH": os.path.join(NPM, "node_modules")},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Mismatch(AssertionError):
    pass


class Validator:
    """As much of JSON Schema as our document uses; unknown keys of an object
    are an error, so that nothing is shown that is not described."""

    TYPES = {"string": str, "integer": int, "boolean": bool, "object": dict,
             "array": list, "number": (int, float), "null": type(None)}

    def __init__(self, doc):
        self.schemas = doc["components"]["schemas"]

    def check(self, schema, value, where="answer"):
        if "$ref" in schema:
            schema = self.schemas[schema["$ref"].rsplit("/", 1)[1]]
        if "anyOf" in schema:
            return self.any_of(schema["anyOf"], value, where)
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else types
        if types and not any(self.is_a(t, value) for t in types):
            raise Mismatch(f"{where}: {value!r} is not {types}")
        if isinstance(value, dict) and "properties" in schema:
            self.check_object(schema, value, where)
        if isinstance(value, list):
            for i, v in enumerate(value):
                self.check(schema["items"], v, f"{where}[{i}]")

    def is_a(self, name, value):
        if isinstance(value, bool) and name != "boolean":
            return False
        return isinstance(value, self.TYPES[name])

    def any_of(self, choices, value, where):
        for s in choices:
            try:
                return self.check(s, value, where)
            except Mismatch as e:
                why = e
        raise why

    def check_object(self, schema, value, where):
        for key in schema.get("required", ()):
            if key not in value:
                raise Mismatch(f"{where}: {key} is missing")
        for key, v in value.items():
            if key not in schema["properties"]:
                raise Mismatch(f"{where}: {key} is not described")
            self.check(schema["properties"][key], v, f"{where}.{key}")


class OpenApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.i = Instance()
        cls.doc = cls.i.api("GET", "/openapi.json").json

    @classmethod
    def tearDownClass(cls):
        cls.i.stop()

    def answer_schema(self, method, path):
        op = self.doc["paths"][path][method.lower()]
        status, ok = next((int(s), r) for s, r in op["responses"].items()
                          if s.isdigit())
        return status, ok["content"]["application/json"]["schema"]

    def see(self, method, path, template=None, body=None):
        """A call whose answer must be as described."""
        status, schema = self.answer_schema(method, template or path)
        r = self.i.api(method, path, body)
        self.assertEqual(r.status, status, r)
        Validator(self.doc).check(schema, r.json)
        return r.json

    def test_linter(self):
        path = os.path.join(self.i.dir, "openapi.json")
        with open(path, "w") as f:
            json.dump(self.doc, f, indent=1)
        p = node("lint_openapi.js", path)
        self.assertEqual(p.returncode, 0, p.stdout)

    def test_every_reference_exists(self):
        text = json.dumps(self.doc)
        for name in set(part.split('"')[0] for part in
                        text.split("#/components/schemas/")[1:]):
            self.assertIn(name, self.doc["components"]["schemas"])

    def test_the_validator_can_fail(self):
        v = Validator(self.doc)
        ok = {"code": 1, "error": "x", "message": "", "request_id": ""}
        ref = {"$ref": "#/components/schemas/Error"}
        v.check(ref, ok)
        for bad in ({**ok, "code": "1"}, {**ok, "more": 1}, {}, [], None,
                    {**ok, "code": True}):
            with self.assertRaises(Mismatch):
                v.check(ref, bad)

    def test_answers(self):
        box = self.see("POST", "/v1/sandboxes", body={"name": "a"})
        one = "/v1/sandboxes/{id}"
        self.see("GET", f"/v1/sandboxes/{box['id']}", one)
        self.see("GET", "/v1/sandboxes")
        self.see("GET", "/v1/images")
        self.see("GET", "/v1/host")
        self.see("GET", "/healthz")
        self.see("PUT", "/v1/drive/files/a/b", "/v1/drive/files/{rest}", b"x")
        self.see("GET", "/v1/drive")
        self.see("GET", "/v1/drive?recursive=true", "/v1/drive")
        self.see("GET", "/v1/drive/versions/a/b", "/v1/drive/versions/{rest}")

    def test_errors(self):
        schema = {"$ref": "#/components/schemas/Error"}
        for method, path in (("GET", "/v1/nothing"), ("PUT", "/v1/host"),
                             ("GET", "/v1/sandboxes/nobody")):
            Validator(self.doc).check(schema, self.i.api(method, path).json)


if __name__ == "__main__":
    harness.main()
