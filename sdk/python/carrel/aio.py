"""The asynchronous client: the names of client.py, to be awaited."""

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
from .face import AsyncFace, AsyncStream, acall, aopens, astreams
from .spec import Spec
from .terminal_calls import Session
from .transport import Async

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AsyncCommand(AsyncStream[Output]):
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

    wait = acall(Following.wait)
    write = acall(Following.write)
    close_stdin = acall(Following.close_stdin)
    kill = acall(Following.kill)
    resize = acall(Following.resize)


class AsyncTerminal(AsyncStream[bytes]):
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

    read = acall(Session.read)
    read_until = acall(Session.read_until)
    read_all = acall(Session.read_all)
    write = acall(Session.write)
    resize = acall(Session.resize)
    signal = acall(Session.signal)


class AsyncCommands(AsyncFace):
    start = aopens(AsyncCommand, commands.start)
    attach = aopens(AsyncCommand, commands.attach)
    list = acall(commands.list_processes)
    kill = acall(commands.send_signal)


class AsyncFiles(AsyncFace):
    read = acall(files.read)
    read_bytes = acall(files.read_bytes)
    stream = astreams(files.stream)
    write = acall(files.write)
    list = acall(files.list_files)
    stat = acall(files.stat)
    exists = acall(files.exists)
    mkdir = acall(files.mkdir)
    move = acall(files.move)
    copy = acall(files.copy)
    remove = acall(files.remove)
    chmod = acall(files.chmod)
    watch = astreams(files.watch)
    upload_tar = acall(files.upload_tar)
    download_tar = astreams(files.download_tar)


class AsyncImages(AsyncFace):
    list = acall(hosts.list_images)
    get = acall(hosts.get_image)
    put = acall(hosts.put_image)
    pull = acall(hosts.pull_image)
    export = astreams(hosts.export_image)
    save = acall(hosts.save_image)
    remove = acall(hosts.remove_image)


class AsyncSnapshots(AsyncFace):
    list = acall(hosts.list_snapshots)
    get = acall(hosts.get_snapshot)
    remove = acall(hosts.remove_snapshot)


class AsyncPolicies(AsyncFace):
    set = acall(hosts.set_policy)
    get = acall(hosts.get_policy)
    list = acall(hosts.list_policies)
    remove = acall(hosts.remove_policy)
    test = acall(hosts.test_policy)


class AsyncApprovals(AsyncFace):
    list = acall(hosts.list_approvals)
    approve = acall(hosts.approve)
    deny = acall(hosts.deny)


class AsyncSecrets(AsyncFace):
    set = acall(hosts.set_secret)
    list = acall(hosts.list_secrets)
    remove = acall(hosts.remove_secret)


class AsyncDrive(AsyncFace):
    put = acall(hosts.drive_put)
    get = acall(hosts.drive_get)
    list = acall(hosts.drive_list)
    versions = acall(hosts.drive_versions)
    remove = acall(hosts.drive_remove)


class AsyncVolumes(AsyncFace):
    create = acall(hosts.create_volume)
    list = acall(hosts.list_volumes)
    get = acall(hosts.get_volume)
    remove = acall(hosts.remove_volume)


class AsyncKeys(AsyncFace):
    create = acall(hosts.create_key)
    list = acall(hosts.list_keys)
    remove = acall(hosts.remove_key)


class AsyncClient(AsyncFace):
    """A daemon. Without arguments it is the one that CARREL_URL (with
    CARREL_API_KEY) or CARREL_SOCKET names, or the one of this host."""

    def __init__(self, url: str | None = None, api_key: str | None = None, *,
                 socket: str | None = None, ca: str | None = None,
                 timeout: float = 60.0, retries: int = 3) -> None:
        link = Link.make(url, api_key, socket, ca, timeout, retries)
        super().__init__(Async(link), link)
        self.images = AsyncImages(self._runner, link)
        self.snapshots = AsyncSnapshots(self._runner, link)
        self.policies = AsyncPolicies(self._runner, link)
        self.approvals = AsyncApprovals(self._runner, link)
        self.secrets = AsyncSecrets(self._runner, link)
        self.drive = AsyncDrive(self._runner, link)
        self.volumes = AsyncVolumes(self._runner, link)
        self.keys = AsyncKeys(self._runner, link)

    run = acall(hosts.run_once)
    kill_all = acall(hosts.kill_all)
    host = acall(hosts.host)
    stats = acall(hosts.stats)
    usage = acall(hosts.usage)
    events = astreams(hosts.events)

    def close(self) -> None:
        self._at.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()


class AsyncSandbox(AsyncFace):
    """A machine of its own. As a context manager it is killed at the end of
    the block."""
    _at: boxes.At

    def __init__(self, client: AsyncClient | None, ref: str) -> None:
        self.client = client or AsyncClient()
        super().__init__(self.client._runner,
                         boxes.At(self.client._at, ref, own=client is None))
        self.commands = AsyncCommands(self._runner, self._at)
        self.files = AsyncFiles(self._runner, self._at)

    @property
    def id(self) -> str:
        return self._at.id

    @classmethod
    async def create(cls, image: str | None = None, *,
                     client: AsyncClient | None = None,
                     snapshot: str | Snapshot | None = None,
                     **spec: Unpack[Spec]) -> AsyncSandbox:
        """Makes one, of an image or from a snapshot. Everything else is what
        carrel.Spec has: name, labels, cpus, memory, timeout, env, files..."""
        box = cls(client, "new")
        made = await box._runner.run(boxes.create(box._at.link, {
            "image": image, "snapshot": getattr(snapshot, "id", snapshot),
            **spec}))
        box._at.id = made.id
        return box

    @classmethod
    async def connect(cls, ref: str, *,
                      client: AsyncClient | None = None) -> AsyncSandbox:
        """One that there is, by id or name."""
        box = cls(client, ref)
        box._at.id = (await box.info()).id
        return box

    @classmethod
    async def list(cls, *, client: AsyncClient | None = None,
                   label: str | None = None, state: str | None = None,
                   name: str | None = None,
                   project: str | None = None) -> List[SandboxInfo]:
        """All there are, or those that fit; connect() to one by its id."""
        at = client or AsyncClient()
        try:
            return await at._runner.run(boxes.find(
                at._at, label=label, state=state, name=name, project=project))
        finally:
            if not client:
                at.close()

    run = acall(commands.run)
    terminal = aopens(AsyncTerminal, terminals.terminal)
    info = acall(boxes.info)
    kill = acall(boxes.kill)
    pause = acall(boxes.pause)
    move = acall(boxes.move)
    resume = acall(boxes.resume)
    update = acall(boxes.update)
    set_timeout = acall(boxes.set_timeout)
    snapshot = acall(boxes.snapshot)
    snapshots = acall(boxes.snapshots)
    rollback = acall(boxes.rollback)
    diff = astreams(boxes.diff)
    merge = acall(boxes.merge)
    tree = acall(boxes.tree)
    stats = acall(boxes.stats)
    request_access = acall(boxes.request_access)
    recordings = acall(boxes.recordings)
    recording = acall(boxes.recording)
    drive_put = acall(boxes.drive_put)
    drive_get = acall(boxes.drive_get)
    url = acall(boxes.url)
    port_token = acall(boxes.port_token)
    fetch = acall(boxes.fetch)

    async def fork(self, count: int = 1,
                   **spec: Unpack[Spec]) -> List[AsyncSandbox]:
        """So many that start where this one is; `spec` is what is different
        in them. Several get NAME-1, NAME-2... as their names."""
        made = await self._runner.run(boxes.fork(self._at, count, spec))
        return [type(self)(self.client, s.id) for s in made]

    def events(self, *, after: int | None = None, type: str | None = None,
               follow: bool = True,
               limit: int | None = None) -> AsyncStream[Event]:
        """Entries of the log about it."""
        return self.client.events(after=after, sandbox=self.id, type=type,
                                  follow=follow, limit=limit)

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.kill()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
