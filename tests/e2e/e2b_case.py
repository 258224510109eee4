"""What tests of E2B's requests by hand share: keys, calls, and their answers."""

import harness


class Case(harness.Case):
    def key(self, scope="use", project="default"):
        r = self.i.api("POST", "/v1/keys", {"name": "k", "scope": scope,
                                            "project": project})
        self.assertEqual(r.status, 201, r)
        return r.json["key"]

    def call(self, method, path, body=None, key=None, headers=None):
        headers = dict(headers or {})
        if key:
            headers["X-API-Key"] = key
        return self.i.api(method, path, body, headers)

    def ok(self, status, *call, **kw):
        r = self.call(*call, **kw)
        self.assertEqual(r.status, status, r)
        return r.json
