"""The api role over TCP and TLS, for tests: addresses, certificates, clients."""

import http.client
import json
import os
import socket
import ssl
import subprocess
import tempfile

import fake_warden
import harness


def free_port(host="127.0.0.1"):
    with socket.socket(socket.AF_INET6 if ":" in host else
                       socket.AF_INET) as s:
        s.bind((host, 0))
        return s.getsockname()[1]


def open_door(case, prefix):
    """An api of `case` that listens, as its CONF and TLS say: sets its dir,
    port, context and a."""
    case.dir = tempfile.mkdtemp(prefix=prefix)
    case.port = free_port()
    conf = {"listen": f"127.0.0.1:{case.port}", **case.CONF}
    case.context = None
    if case.TLS:
        conf["tls_cert"], conf["tls_key"] = certificate(case.dir)
        case.context = trusting(conf["tls_cert"])
    case.a = fake_warden.Api(**conf)


def certificate(where):
    """(cert, key): files of a self-signed one for localhost, readable by root."""
    cert, key = f"{where}/cert.pem", f"{where}/key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-keyout", key,
         "-out", cert, "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True)
    os.chmod(key, 0o600)
    return cert, key


def trusting(cert):
    return ssl.create_default_context(cafile=cert)


def connect(port, context=None, timeout=30):
    s = socket.create_connection(("127.0.0.1", port), timeout * harness.SLOW)
    return context.wrap_socket(s, server_hostname="localhost") if context else s


def call(port, method, path, body=None, headers=None, key=None, context=None):
    """One request: harness.Answer."""
    c = http.client.HTTPConnection("127.0.0.1", port)
    c.sock = connect(port, context)
    headers = {"Host": f"127.0.0.1:{port}", **(headers or {})}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    try:
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        c.request(method, path, body, headers)
        r = c.getresponse()
        return harness.Answer(r.status, dict(r.getheaders()), r.read())
    finally:
        c.close()


def raw(sock, data):
    """Sends, and returns all that comes until the server closes."""
    got = b""
    try:
        sock.sendall(data)
        while more := sock.recv(65536):
            got += more
    except (ConnectionResetError, BrokenPipeError, ssl.SSLError):
        pass
    return got
