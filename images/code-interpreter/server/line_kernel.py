"""Interpreters that read a piece of code from a pipe and say when it is done.

Each gets its code on descriptor 3, as "LENGTH NONCE\\n" and so many bytes of
JSON, and writes a NUL and the nonce to stdout and stderr behind what the code
wrote, and a line of JSON to descriptor 4: {"result": text} or {"error": {...}}.
"""

import json
import os
import secrets
import select
import signal
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
INTERRUPT_S = 2


class Kernel:
    def __init__(self, argv, cwd):
        code_r, self.code = os.pipe()
        self.reply, reply_w = os.pipe()
        # They are 3 and 4 in the child whatever they are here.
        spare = [os.dup(code_r), os.dup(reply_w)]
        os.close(code_r)
        os.close(reply_w)
        script = ('exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"')
        self.process = subprocess.Popen(
            ["bash", "-c", script, "kernel", str(spare[0]), str(spare[1]),
             *argv], cwd=cwd, pass_fds=spare, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True)
        for fd in spare:
            os.close(fd)
        self.fds = (self.code, self.reply)
        self.lock = threading.Lock()
        self.count = 0
        self.interrupted = 0

    def alive(self):
        return self.process.poll() is None

    def interrupt(self):
        self.interrupted = time.monotonic()
        self.signal(signal.SIGINT)

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def stop(self):
        self.signal(signal.SIGKILL)
        self.process.wait()
        # Once: the numbers may be somebody else's soon.
        with self.lock:
            fds, self.fds = self.fds, ()
        for fd in fds:
            os.close(fd)

    def run(self, code, env, out):
        self.count += 1
        self.interrupted = 0
        out.send({"type": "number_of_executions",
                  "execution_count": self.count})
        nonce = secrets.token_hex(16)
        ask = json.dumps({"code": code, "env": env}).encode()
        self.give(f"{len(ask)} {nonce}\n".encode() + ask)
        if self.pass_output(b"\0" + nonce.encode(), out):
            self.pass_reply(out)
        else:
            self.signal(signal.SIGKILL)  # what it started, too
            self.process.wait()
            out.send({"type": "error", "name": "KernelDied",
                      "value": "the interpreter ended; its state is lost",
                      "traceback": ""})

    def give(self, ask):
        view = memoryview(ask)
        try:
            while view:
                view = view[os.write(self.code, view):]
        except BrokenPipeError:
            pass  # it has ended meanwhile: its output says so, too

    def pass_output(self, end, out):
        """What the code writes, until it is done; False: it is gone."""
        names = {self.process.stdout: "stdout", self.process.stderr: "stderr"}
        held = {f: b"" for f in names}
        while held:
            for f in select.select(list(held), [], [], 0.5)[0]:
                piece = os.read(f.fileno(), 65536)
                held[f] += piece
                text, done = split(held[f], end, not piece)
                if text:
                    out.send({"type": names[f], "timestamp": time.time_ns(),
                              "text": text.decode(errors="replace")})
                held[f] = held[f][len(text):]
                if done:
                    del held[f]
                if not piece:
                    return False
            if held:
                self.lose_patience()
        return True

    def lose_patience(self):
        """What does not heed an interrupt is ended."""
        if self.interrupted and \
                time.monotonic() > self.interrupted + INTERRUPT_S:
            self.signal(signal.SIGKILL)

    def pass_reply(self, out):
        line = b""
        while not line.endswith(b"\n"):
            piece = os.read(self.reply, 65536)
            if not piece:
                return
            line += piece
        reply = json.loads(line)
        if reply.get("error"):
            out.send({"type": "error", **reply["error"]})
        elif reply.get("result") is not None:
            out.send({"type": "result", "is_main_result": True,
                      "text": reply["result"]})


def split(held, end, closed):
    """What of it can be passed on, and whether the end is there."""
    at = held.find(end)
    if at >= 0:
        return held[:at], True
    if closed:
        return held, True
    nul = held.rfind(b"\0", max(0, len(held) - len(end)))
    text = held if nul < 0 else held[:nul]
    # A character whose rest is missing waits for it.
    for back in range(1, min(4, len(text)) + 1):
        if text[-back] >= 0xc0:
            size = 2 if text[-back] < 0xe0 else 3 if text[-back] < 0xf0 else 4
            return (text[:-back] if size > back else text), False
        if text[-back] < 0x80:
            break
    return text, False


def javascript(cwd):
    return Kernel(["node", "--no-warnings",
                   os.path.join(HERE, "kernel.js")], cwd)


def bash(cwd):
    return Kernel(["bash", "--noprofile", "--norc",
                   os.path.join(HERE, "kernel.bash")], cwd)
