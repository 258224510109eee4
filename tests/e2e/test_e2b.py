# suite: npm
"""Sandboxes over the E2B SDKs, and what their wire is beyond the SDKs."""

import json

import clients
import harness


@clients.cases("e2b_sandbox.test.mjs", variants=["e2b", "e2b-old"])
class Sandboxes(clients.Case):
    IMAGE = "debian"
    CONF = {"domain": "box.test"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.i.import_image("tiny")

    def environment(self):
        def make(*args):
            return self.i.cli("key", "create", *args, check=0).out.strip()
        # What a user is told has to be enough.
        told = json.loads(self.i.cli("--config", self.i.config, "e2b", "env",
                                     "--json", check=0).out)
        return {**told, "CARREL_NPM": clients.NPM,
                "CARREL_READ_KEY": make("--scope", "read"),
                "CARREL_OTHER_KEY": make("--project", "other")}


class Env(harness.Case):
    """What `e2b env` prints is all that a client needs."""

    def test_words(self):
        p = self.i.cli("e2b", "env", "--url", "https://boxes.test/", check=0)
        lines = p.out.splitlines()
        self.assertRegex(lines[0], r"^export E2B_API_KEY=e2b_[0-9a-f]{40}$")
        self.assertEqual(lines[1:4], [
            f"export {name}=https://boxes.test" for name in
            ("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL")])
        self.assertIn("e2b", self.i.cli("key", "ls", check=0).out)

    def test_a_daemon_that_does_not_listen(self):
        p = self.i.cli("e2b", "env", "--no-key", check=1)
        self.assertIn("listen = 127.0.0.1:7070", p.err)

    def test_urls_that_are_none(self):
        for url in ("boxes.test", "ftp://x", "http://$(id)", "http://a'b"):
            p = self.i.cli("e2b", "env", "--no-key", "--url", url, check=2)
            self.assertIn("--url", p.err)


if __name__ == "__main__":
    harness.main()
