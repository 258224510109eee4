"""Carrel: a Linux machine for every agent.

	from carrel import Sandbox

	with Sandbox.create() as box:
	    box.files.write("hello.py", "print('hello')")
	    print(box.run("python3 hello.py").stdout)

AsyncSandbox has the same names, to be awaited.
"""

from .aio import AsyncClient, AsyncCommand, AsyncSandbox, AsyncTerminal
from .client import Client, Command, Sandbox, Terminal
from .data import (Access, Approval, Change, DriveFile, Entry, Event, FileEvent,
                   HttpAnswer, Image, Key, MergeResult, Node, Output, Policy,
                   PortToken, ProcessInfo, Recording, Result, SandboxInfo,
                   Secret, Snapshot, Unpacked, Verdict, Volume, Written)
from .errors import (BadRequest, CarrelError, CommandError, Conflict,
                     ConnectionFailed, Ended, Forbidden, LimitReached,
                     MergeConflict, NoSpace, NotFound, NotReached,
                     ProtocolError, ServerError, TimedOut, Unauthorized,
                     Unavailable, VersionMismatch)
from .face import AsyncStream, Stream
from .spec import Spec

__version__ = "0.1.0"

__all__ = [
    "Access", "Approval", "AsyncClient", "AsyncCommand", "AsyncSandbox", "AsyncStream",
    "AsyncTerminal", "BadRequest", "CarrelError", "Change", "Client",
    "Command", "CommandError", "Conflict", "ConnectionFailed", "DriveFile",
    "Ended", "Entry", "Event", "FileEvent", "Forbidden", "HttpAnswer",
    "Image", "Key", "LimitReached", "MergeConflict", "MergeResult", "NoSpace",
    "Node", "NotFound", "NotReached", "Output", "Policy", "PortToken",
    "ProcessInfo", "ProtocolError", "Recording", "Result", "Sandbox", "SandboxInfo",
    "Secret", "ServerError", "Snapshot", "Spec", "Stream", "Terminal",
    "TimedOut", "Unauthorized", "Unavailable", "Unpacked", "Verdict",
    "VersionMismatch", "Volume", "Written",
]
