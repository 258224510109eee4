"""Contexts: a language, a directory, and an interpreter that keeps its state."""

import os
import threading
import uuid

import line_kernel

CONTEXTS_MAX = 64
HOME = os.environ.get("HOME") or "/home/user"


class Unknown(Exception):
    pass


class Unusable(Exception):
    pass


def python(cwd):
    import python_kernel  # takes longest to load, and is not always wanted
    return python_kernel.Kernel(cwd)


LANGUAGES = {
    "python": python,
    "javascript": line_kernel.javascript,
    "bash": line_kernel.bash,
}
OTHER_NAMES = {"py": "python", "python3": "python", "js": "javascript",
               "node": "javascript", "sh": "bash"}


class Context:
    def __init__(self, language, cwd, start):
        self.id = str(uuid.uuid4())
        self.language, self.cwd, self.start = language, cwd, start
        self.lock = threading.Lock()  # one piece of code at a time
        self.kernel = None

    def describe(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    def ready(self):
        """Its kernel; a new one if that is not there, or not any more."""
        if self.kernel and not self.kernel.alive():
            self.kernel.stop()
            self.kernel = None
        if not self.kernel:
            self.kernel = self.start(self.cwd)
        return self.kernel

    def run(self, code, env, out, leaves):
        """`leaves` watches a client, who interrupts only what is its own."""
        with self.lock:
            kernel = self.ready()
            watch = leaves(kernel.interrupt)
            if watch.already():
                return
            with watch:
                kernel.run(code, env, out)

    def restart(self):
        """What runs ends with its kernel, so it is not waited for."""
        if self.kernel:
            self.kernel.stop()
        with self.lock:
            self.kernel = None
            self.ready()

    def stop(self):
        if self.kernel:
            self.kernel.stop()


_all, _defaults, _lock = {}, {}, threading.Lock()


def _language(name):
    name = (name or "python").lower() if isinstance(name, str) or not name \
        else str(name)
    name = OTHER_NAMES.get(name, name)
    if name not in LANGUAGES:
        raise Unusable(f"language '{name}' is not installed here; there are: "
                       + ", ".join(LANGUAGES))
    return name


def _new(language, cwd):
    language, cwd = _language(language), cwd or HOME
    if not isinstance(cwd, str) or not os.path.isdir(cwd):
        raise Unusable(f"there is no directory '{cwd}'")
    if len(_all) >= CONTEXTS_MAX:
        raise Unusable(f"there are {CONTEXTS_MAX} contexts: remove some")
    context = Context(language, cwd, LANGUAGES[language])
    _all[context.id] = context
    return context


def make(language, cwd):
    with _lock:
        context = _new(language, cwd)
    with context.lock:
        context.ready()
    return context


def find(name):
    with _lock:
        if name not in _all:
            raise Unknown(f"Context {name} not found")
        return _all[name]


def choose(name, language):
    """That context, or the one that is used when none is named."""
    if name and language:
        raise Unusable("only one of context_id and language can be given")
    if name:
        return find(name)
    language = _language(language)
    with _lock:
        if language not in _defaults:
            _defaults[language] = _new(language, None)
        return _defaults[language]


def drop(name):
    context = find(name)
    with _lock:
        _all.pop(name, None)
        for language, other in list(_defaults.items()):
            if other is context:
                del _defaults[language]
    context.stop()


def all_of_them():
    with _lock:
        return list(_all.values())


def warm():
    """The one that nearly all ask for, before they do."""
    context = choose(None, "python")

    def start():
        with context.lock:
            context.ready()

    threading.Thread(target=start, daemon=True).start()
