"""An agent that works in a sandbox of its own.

The model here is a script, so that the example runs anywhere; what yours has
to do is the same: get the conversation, return the next step. The loop gives it
tools, has a snapshot taken before each command, and shows at the end what was changed.
"""

import json

from carrel import CarrelError, Sandbox

TASK = "words.sh is to print how many words its input has. Make test.sh pass."
FILES = {
    "words.sh": "wc -l\n",
    "test.sh": 'for text in "" "one" "one two" "a b  c"; do\n'
               '    got=$(printf "%s" "$text" | sh words.sh)\n'
               '    want=$(set -- $text; echo $#)\n'
               '    [ "$got" -eq "$want" ] || {\n'
               '        echo "\'$text\': $got, not $want"; exit 1; }\n'
               'done\n'
               'echo all tests pass\n',
}


class ScriptedModel:
    """Stands in for a model: (tool, arguments), or None when it is done."""

    def next(self, conversation):
        last = conversation[-1]["content"]
        if len(conversation) == 1:
            return "run", {"command": "sh test.sh"}
        if "not 1" in last:  # it counts line ends
            return "read", {"path": "words.sh"}
        if last == "wc -l\n":
            return "write", {"path": "words.sh", "text": "wc -w\n"}
        if last == "written":
            return "run", {"command": "sh test.sh"}
        return None


class Tools:
    """What the model may do, and what it hears of it."""

    def __init__(self, box):
        self.box = box

    def run(self, command):
        r = self.box.run(command, timeout=60)
        return f"exit code {r.exit_code}\n{r.stdout}{r.stderr}"

    def read(self, path):
        return self.box.files.read(path)

    def write(self, path, text):
        self.box.files.write(path, text)
        return "written"


def work(model, box, task, most=20):
    tools = Tools(box)
    conversation = [{"role": "user", "content": task}]
    for _ in range(most):
        step = model.next(conversation)
        if step is None:
            return conversation
        name, args = step
        print(f"> {name} {json.dumps(args)}")
        try:
            heard = getattr(tools, name)(**args)
        except CarrelError as e:
            heard = f"error: {e.message}"  # models learn from these
        print("  " + heard.rstrip().replace("\n", "\n  "))
        conversation += [{"role": "assistant", "content": str(step)},
                         {"role": "tool", "content": heard}]
    raise SystemExit("the model has not come to an end")


def main():
    # No way out of it, and gone in ten minutes whatever happens to us.
    with Sandbox.create(timeout="10m", files=FILES,
                        auto_snapshot="exec") as box:
        before = box.snapshot()
        work(ScriptedModel(), box, TASK)
        box.run("sh test.sh", check=True)
        print("changed:")
        for c in box.diff(before, paths=["/home/user"]):
            print(f"  {c.change} {c.path}")
        print(f"snapshots to go back to: {len(box.snapshots())}")


if __name__ == "__main__":
    main()
