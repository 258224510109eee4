# suite: both
"""HTTP/2 where the gate looks inside: it speaks HTTP/1.1 there, and says so."""

import json
import ssl

import harness
from harness import SLOW, wait_for
from internet import Inside
from test_gate_life import Case as GateCase

# SETTINGS and GOAWAY: what a server without HTTP/1.1 answers to it.
H2_ONLY = (b"\0\0\0\4\0\0\0\0\0"
           b"\0\0\x08\7\0\0\0\0\0" + b"\0" * 7 + b"\1")


class Http2(GateCase):
    def setUp(self):
        self.box = self.make(rules=["allow GET https://api.test/*",
                                    "allow * https://other.test"])
        self.inside = Inside(self.i, self.box)
        self.addCleanup(self.inside.close)

    def shake(self, host):
        """A handshake of a client that speaks h2 alone: what was chosen."""
        sock, r = self.inside.tunnel(host)
        self.addCleanup(sock.close)
        self.assertEqual(r.status, 200, r)
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE
        ctx.set_alpn_protocols(["h2"])
        with ctx.wrap_socket(sock, server_hostname=host) as tls:
            return tls.selected_alpn_protocol()

    def denied(self):
        r = self.i.api("GET", f"/v1/sandboxes/{self.box}/log?type=egress.denied")
        return [json.loads(line)["data"] for line in r.body.splitlines()]

    def test_a_client_without_http1(self):
        with self.assertRaisesRegex(ssl.SSLError, "(?i)no.application.protocol"):
            self.shake("api.test")
        x, = wait_for("it is in the log", self.denied, 10 * SLOW)
        self.assertEqual(x["host"], "api.test")
        self.assertIn("nothing but HTTP/2", x["why"])
        self.assertIn("allow * https://HOST", x["why"])
        # As a whole the host passes unseen: what is spoken is its own matter.
        self.shake("other.test")
        self.assertEqual(len(self.denied()), 1)

    def test_a_server_without_http1(self):
        self.web.handler = lambda r: H2_ONLY
        try:
            sock, r = self.inside.tunnel("api.test")
            self.assertEqual(r.status, 200, r)
            tls = self.inside.tls(sock, "api.test")
            self.addCleanup(tls.close)
            r = self.inside.get("/x", fields=[("Host", "api.test")], sock=tls)
        finally:
            self.web.handler = None
        self.assertEqual(r.status, 502, r)
        self.assertIn("HTTP/2 alone", r.body.decode())
        self.assertIn("allow * https://HOST", r.body.decode())


if __name__ == "__main__":
    harness.main()
