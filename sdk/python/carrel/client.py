"""The blocking client. aio.py has the same for asyncio; what a request is stands
in neither of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from . import command_calls as commands
from . import file_calls as files
from . import host_calls as hosts
from . import sandbox_calls as boxes
from . import terminal_calls as terminals
from .command_calls import Following
from .data import Event, Output, SandboxInfo, Snapshot
from .exchange import Link
from .face import Face, Stream, call, opens, streams
from .spec import Spec
from .terminal_calls import Session
from .transport import Blocking

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Command(Stream[Output]):
    """A command that was started: iterate over it for its output, or wait()
    for its end. As a context manager it is killed at the end of the block;
    close() leaves it running."""
    _at: Following

    @property
    def number(self) -> int:
        return self._at.number

    @property
    def pid(self) -> int:
        return self._at.pid

    @property
    def tag(self) -> str | None:
        return self._at.tag

    wait = call(Following.wait)
    write = call(Following.write)
    close_stdin = call(Following.close_stdin)
    kill = call(Following.kill)
    resize = call(Following.resize)


class Terminal(Stream[bytes]):
    """A terminal: iterate over it for what it shows. As a context manager its
    process is hung up at the end of the block; close() leaves it running, and
    terminal(process=N) comes back to it."""
    _at: Session

    @property
    def number(self) -> int:
        """Of its process."""
        return self._at.number

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._at.exit_code

    read = call(Session.read)
    read_until = call(Session.read_until)
    read_all = call(Session.read_all)
    write = call(Session.write)
    resize = call(Session.resize)
    signal = call(Session.signal)


class Commands(Face):
    start = opens(Command, commands.start)
    attach = opens(Command, commands.attach)
    list = call(commands.list_processes)
    kill = call(commands.send_signal)


class Files(Face):
    read = call(files.read)
    read_bytes = call(files.read_bytes)
    stream = streams(files.stream)
    write = call(files.write)
    list = call(files.list_files)
    stat = call(files.stat)
    exists = call(files.exists)
    mkdir = call(files.mkdir)
    move = call(files.move)
    copy = call(files.copy)
    remove = call(files.remove)
    chmod = call(files.chmod)
    watch = streams(files.watch)
    upload_tar = call(files.upload_tar)
    download_tar = streams(files.download_tar)


class Images(Face):
    list = call(hosts.list_images)
    get = call(hosts.get_image)
    put = call(hosts.put_image)
    pull = call(hosts.pull_image)
    export = streams(hosts.export_image)
    save = call(hosts.save_image)
    remove = call(hosts.remove_image)


class Snapshots(Face):
    list = call(hosts.list_snapshots)
    get = call(hosts.get_snapshot)
    remove = call(hosts.remove_snapshot)


class Policies(Face):
    set = call(hosts.set_policy)
    get = call(hosts.get_policy)
    list = call(hosts.list_policies)
    remove = call(hosts.remove_policy)
    test = call(hosts.test_policy)


class Approvals(Face):
    list = call(hosts.list_approvals)
    approve = call(hosts.approve)
    deny = call(hosts.deny)


class Secrets(Face):
    set = call(hosts.set_secret)
    list = call(hosts.list_secrets)
    remove = call(hosts.remove_secret)


class Drive(Face):
    put = call(hosts.drive_put)
    get = call(hosts.drive_get)
    list = call(hosts.drive_list)
    versions = call(hosts.drive_versions)
    remove = call(hosts.drive_remove)


class Volumes(Face):
    create = call(hosts.create_volume)
    list = call(hosts.list_volumes)
    get = call(hosts.get_volume)
    remove = call(hosts.remove_volume)


class Keys(Face):
    create = call(hosts.create_key)
    list = call(hosts.list_keys)
    remove = call(hosts.remove_key)


class Client(Face):
    """A daemon. Without arguments it is the one that CARREL_URL (with
    CARREL_API_KEY) or CARREL_SOCKET names, or the one of this host."""

    def __init__(self, url: str | None = None, api_key: str | None = None, *,
                 socket: str | None = None, ca: str | None = None,
                 timeout: float = 60.0, retries: int = 3) -> None:
        link = Link.make(url, api_key, socket, ca, timeout, retries)
        super().__init__(Blocking(link), link)
        self.images = Images(self._runner, link)
        self.snapshots = Snapshots(self._runner, link)
        self.policies = Policies(self._runner, link)
        self.approvals = Approvals(self._runner, link)
        self.secrets = Secrets(self._runner, link)
        self.drive = Drive(self._runner, link)
        self.volumes = Volumes(self._runner, link)
        self.keys = Keys(self._runner, link)

    run = call(hosts.run_once)
    kill_all = call(hosts.kill_all)
    host = call(hosts.host)
    stats = call(hosts.stats)
    usage = call(hosts.usage)
    events = streams(hosts.events)

    def close(self) -> None:
        self._at.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Sandbox(Face):
    """A machine of its own. As a context manager it is killed at the end of
    the block."""
    _at: boxes.At

    def __init__(self, client: Client | None, ref: str) -> None:
        self.client = client or Client()
        super().__init__(self.client._runner,
                         boxes.At(self.client._at, ref, own=client is None))
        self.commands = Commands(self._runner, self._at)
        self.files = Files(self._runner, self._at)

    @property
    def id(self) -> str:
        return self._at.id

    @classmethod
    def create(cls, image: str | None = None, *,
               client: Client | None = None,
               snapshot: str | Snapshot | None = None,
               **spec: Unpack[Spec]) -> Sandbox:
        """Makes one, of an image or from a snapshot. Everything else is what
        carrel.Spec has: name, labels, cpus, memory, timeout, env, files..."""
        box = cls(client, "new")
        made = box._runner.run(boxes.create(box._at.link, {
            "image": image, "snapshot": getattr(snapshot, "id", snapshot),
            **spec}))
        box._at.id = made.id
        return box

    @classmethod
    def connect(cls, ref: str, *,
                client: Client | None = None) -> Sandbox:
        """One that there is, by id or name."""
        box = cls(client, ref)
        box._at.id = (box.info()).id
        return box

    @classmethod
    def list(cls, *, client: Client | None = None,
             label: str | None = None, state: str | None = None,
             name: str | None = None,
             project: str | None = None) -> List[SandboxInfo]:
        """All there are, or those that fit; connect() to one by its id."""
        at = client or Client()
        try:
            return at._runner.run(boxes.find(
                at._at, label=label, state=state, name=name, project=project))
        finally:
            if not client:
                at.close()

    run = call(commands.run)
    terminal = opens(Terminal, terminals.terminal)
    info = call(boxes.info)
    kill = call(boxes.kill)
    pause = call(boxes.pause)
    move = call(boxes.move)
    resume = call(boxes.resume)
    update = call(boxes.update)
    set_timeout = call(boxes.set_timeout)
    snapshot = call(boxes.snapshot)
    snapshots = call(boxes.snapshots)
    rollback = call(boxes.rollback)
    diff = streams(boxes.diff)
    merge = call(boxes.merge)
    tree = call(boxes.tree)
    stats = call(boxes.stats)
    request_access = call(boxes.request_access)
    recordings = call(boxes.recordings)
    recording = call(boxes.recording)
    drive_put = call(boxes.drive_put)
    drive_get = call(boxes.drive_get)
    url = call(boxes.url)
    port_token = call(boxes.port_token)
    fetch = call(boxes.fetch)

    def fork(self, count: int = 1,
             **spec: Unpack[Spec]) -> List[Sandbox]:
        """So many that start where this one is; `spec` is what is different
        in them. Several get NAME-1, NAME-2... as their names."""
        made = self._runner.run(boxes.fork(self._at, count, spec))
        return [type(self)(self.client, s.id) for s in made]

    def events(self, *, after: int | None = None, type: str | None = None,
               follow: bool = True,
               limit: int | None = None) -> Stream[Event]:
        """Entries of the log about it."""
        return self.client.events(after=after, sandbox=self.id, type=type,
                                  follow=follow, limit=limit)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
