"""What an MCP client does: it starts `carrel mcp`, asks what tools there are,
and calls them. The session has a sandbox of its own, which ends with it.
"""

import json
import subprocess


class Session:
    """JSON-RPC, a line each, over the server's stdin and stdout."""

    def __init__(self, *argv):
        self.server = subprocess.Popen(argv, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.n = 0
        self.call("initialize", protocolVersion="2025-06-18", capabilities={},
                  clientInfo={"name": "example", "version": "1"})
        self.send(method="notifications/initialized")

    def send(self, **message):
        self.server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.server.stdin.flush()

    def call(self, method, **params):
        self.n += 1
        self.send(id=self.n, method=method, params=params)
        for line in self.server.stdout:
            answer = json.loads(line)
            if answer.get("id") != self.n or "method" in answer:
                continue  # progress, or a question to the client
            if "error" in answer:
                raise RuntimeError(answer["error"]["message"])
            return answer["result"]
        raise RuntimeError("the server has ended")

    def tool(self, name, **args):
        """The text of its answer."""
        r = self.call("tools/call", name=name, arguments=args)
        text = "\n".join(c["text"] for c in r["content"]
                         if c["type"] == "text")
        if r.get("isError"):
            raise RuntimeError(text)
        return text

    def close(self):
        self.server.stdin.close()
        return self.server.wait(60)


def main():
    s = Session("carrel", "mcp")
    try:
        names = [t["name"] for t in s.call("tools/list")["tools"]]
        print("tools:", ", ".join(names))
        s.tool("write_file", path="greet.sh", content="echo hello, $1\n")
        print(s.tool("run_command", command="sh greet.sh world"))
        s.tool("edit_file", path="greet.sh", old_string="hello",
               new_string="good morning")
        print(s.tool("run_command", command="sh greet.sh world"))
        print(s.tool("diff"))
    finally:
        code = s.close()
    print(f"the server exited with {code}")


if __name__ == "__main__":
    main()
