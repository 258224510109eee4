"""Python: an ipykernel of its own, spoken to as notebooks do."""

import queue
import time

import jupyter_client

FORMATS = {
    "text/plain": "text", "text/html": "html", "text/markdown": "markdown",
    "image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpeg",
    "application/pdf": "pdf", "text/latex": "latex",
    "application/json": "json", "application/javascript": "javascript",
    "application/x-carrel-data": "data",
}
START_S = 60
LOST = object()
# Data frames come back as their columns, too.
PREPARE = """
def _columns(frame, include=None, exclude=None):
    import json
    if len(frame) > 10000:
        return {}
    table = json.loads(frame.to_json(orient="split", date_format="iso"))
    return {"application/x-carrel-data": {
        str(name): [row[i] for row in table["data"]]
        for i, name in enumerate(table["columns"])}}
get_ipython().display_formatter.mimebundle_formatter.for_type_by_name(
    "pandas.core.frame", "DataFrame", _columns)
del _columns
"""


class Kernel:
    def __init__(self, cwd):
        self.manager = jupyter_client.KernelManager(kernel_name="python3")
        self.manager.start_kernel(
            cwd=cwd, start_new_session=True,
            extra_arguments=["--InteractiveShell.colors=NoColor",
                             "--HistoryManager.enabled=False"])
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=START_S)
        self.quietly(PREPARE)

    def alive(self):
        return self.manager.is_alive()

    def interrupt(self):
        self.manager.interrupt_kernel()

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def quietly(self, code):
        self.client.execute(code, silent=True, store_history=False,
                            stop_on_error=False)
        self.client.get_shell_msg(timeout=START_S)

    def run(self, code, env, out):
        if env:
            self.quietly(self.environment(env))
        try:
            self.execute(code, out)
        finally:
            if env and self.alive():
                self.quietly("import os as _os; _os.environ.clear(); "
                             "_os.environ.update(_before); del _before, _os")

    @staticmethod
    def environment(env):
        return ("import os as _os; _before = dict(_os.environ); "
                f"_os.environ.update({env!r}); del _os")

    def execute(self, code, out):
        # Else what is asked within 0.1 s after an error is dropped.
        asked = self.client.execute(code, allow_stdin=False,
                                    stop_on_error=False)
        while True:
            message = self.next_message(asked)
            if message is LOST:
                out.send({"type": "stderr", "timestamp": time.time_ns(),
                          "text": "[output was lost: nobody read it in "
                                  "time]\n"})
                return
            if message is None:
                out.send({"type": "error", "name": "KernelDied",
                          "value": "the interpreter ended; its state is lost",
                          "traceback": ""})
                return
            if message["parent_header"].get("msg_id") != asked:
                continue
            if self.pass_on(message["msg_type"], message["content"], out):
                return

    def next_message(self, asked):
        """None: it has died; LOST: it is done, and never said so here."""
        while True:
            try:
                return self.client.get_iopub_msg(timeout=0.5)
            except queue.Empty:
                if not self.alive():
                    return None
                if self.has_replied(asked):
                    return LOST

    def has_replied(self, asked):
        """What is published is dropped when its readers are slow, its end,
        too. Replies are not."""
        try:
            while True:
                reply = self.client.get_shell_msg(timeout=0)
                if reply["parent_header"].get("msg_id") == asked:
                    return True
        except queue.Empty:
            return False

    @staticmethod
    def pass_on(kind, content, out):
        """True: that was the last one."""
        if kind == "status":
            return content["execution_state"] == "idle"
        if kind == "stream":
            out.send({"type": content["name"], "text": content["text"],
                      "timestamp": time.time_ns()})
        elif kind in ("execute_result", "display_data"):
            out.send(result(content["data"], kind == "execute_result"))
        elif kind == "execute_input":
            out.send({"type": "number_of_executions",
                      "execution_count": content["execution_count"]})
        elif kind == "error":
            out.send({"type": "error", "name": content["ename"],
                      "value": content["evalue"],
                      "traceback": "\n".join(content["traceback"])})
        return False


def result(data, is_main):
    line = {"type": "result", "is_main_result": is_main, "extra": {}}
    for kind, value in data.items():
        if kind in FORMATS:
            line[FORMATS[kind]] = value
        else:
            line["extra"][kind] = value
    if not line["extra"]:
        del line["extra"]
    return line
