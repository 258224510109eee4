#!/usr/bin/python3 -I
"""Runs code in contexts that keep their state: HTTP on port 49999.

	POST /execute	{code, context_id | language, env_vars} -> lines of JSON
	GET, POST /contexts, DELETE /contexts/ID, POST /contexts/ID/restart
	GET /health

The socket is there before anything else is loaded, so that whoever asks early
waits in its queue instead of being refused.
"""

import socket

PORT = 49999


def listen():
    s = socket.socket(socket.AF_INET6)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind(("::", PORT))
    s.listen(128)
    return s


if __name__ == "__main__":
    LISTENER = listen()
    import sys
    sys.path.insert(0, "/opt/code-interpreter")
    import http_api
    http_api.serve(LISTENER)
