"""The `camcast` command.

The sub-command `node` is `add_node` in the module `node` of this package, and so on; `IN_MODULE` names the
others. It is imported only when it is the one that was asked for: `camcast --help` needs none of them. Other
packages add sub-commands of their own through the entry point group `camcast.commands`; the benchmark does.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from overlay.errors import CamcastError, why

COMMANDS = {
    "node": "run a peer until it is stopped",
    "archive": "keep the events of topics on stable storage, and replay them",
    "hand-over": "have one archive hand a topic to another, while publishers and subscribers go on",
    "distributor": "serve light publishers and subscribers, together with other distributors",
    "publish": "publish an event, or one for each line of the standard input",
    "subscribe": "print the events of a topic and its subtopics",
    "send": "send a file to everyone who receives the topic's files",
    "receive": "receive the files that are sent to a topic, into a directory",
    "status": "show what a running node or distributor knows and counts",
    "dashboard": "serve a page that shows the network, its topics and live events",
    "top": "show the network in the terminal, again and again",
    "group": "run one process of a group; each line typed is broadcast to all of them",
    "demo": "run a small hierarchy in this process and draw who received what",
    "key": "network keys",
    "right": "rights on topics, granted by a network's authority",
    "completion": "print what bash, zsh or fish needs to complete this command",
}
"""What each sub-command does."""

IN_MODULE = {
    "send": "files",
    "receive": "files",
    "hand-over": "archive",
    "top": "dashboard",
    "key": "right",
}

PLUGINS = "camcast.commands"
"""The entry point group: modules with `ABOUT` and `add_command(commands)`, by the command's name."""


_NO_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; an expected error is one sentence on the standard error, and exit code 1.

    What the output's encoding lacks is escaped. Who reads the output may stop reading: that ends the command,
    and is not an error.
    """
    _have_streams()
    try:
        code = _obey(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except CamcastError as error:
        print(f"camcast: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        extra = _extra_with(error.name or "")
        if extra is None:
            raise
        print(
            f"camcast: this command needs {error.name}, which is not installed: "
            f"pip install 'camcast[{extra}]'",
            file=sys.stderr,
        )
        return 1
    except BrokenPipeError:
        _give_output_up()
        return 0
    except OSError as error:
        if error.errno not in _NO_OUTPUT or error.filename is not None:
            raise
        _give_output_up()
        print(f"camcast: the output cannot be written: {why(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _obey(words: Sequence[str]) -> int:
    parser = parser_for(words)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        parser.prog = f"camcast {arguments.command}"  # whose help has what there is
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    code: int = arguments.action(arguments)
    return code


def _have_streams() -> None:
    """A stream that was closed before the start is nowhere: a socket of the command would have its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (it stays open)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (it stays open)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _give_output_up() -> None:
    """What is still in the buffer would be written when the interpreter ends, and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong with a command line, and where to look."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if (
            action.metavar == "COMMAND"
            and action.choices is not None
            and value not in action.choices
        ):
            near = difflib.get_close_matches(value, action.choices, 1)
            hint = f", perhaps {near[0]}" if near else ""
            raise argparse.ArgumentError(None, f"there is no command {value!r}{hint}")
        super()._check_value(action, value)


def parser_for(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of this command line: it knows all sub-commands, and the options of the one in `words`."""
    parser = _Parser(
        prog="camcast",
        description="Brokerless publish/subscribe on a Kademlia DHT, and its benchmark.",
        epilog="example: camcast demo",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((word for word in words if not word.startswith("-")), None)
    for name, about in COMMANDS.items():
        if name == chosen:
            module = import_module(f"pubsub.cli.{IN_MODULE.get(name, name)}")
            getattr(module, f"add_{name.replace('-', '_')}")(commands)
        else:
            commands.add_parser(name, help=about)
    if chosen in COMMANDS:  # what other packages add need not be looked for, which takes a while
        return parser
    from importlib import metadata

    for plugin in metadata.entry_points(group=PLUGINS):
        added = plugin.load()
        if plugin.name == chosen:
            added.add_command(commands)
        else:
            commands.add_parser(plugin.name, help=added.ABOUT)
    return parser


def _extra_with(module: str) -> str | None:
    """The extra of this package that installs a module; None for a module that no extra names."""
    from importlib import metadata

    name = module.partition(".")[0].replace("_", "-").lower()
    for requirement in metadata.requires("camcast") or ():
        found = re.match(r"([\w.-]+).*extra == ['\"](\w+)['\"]", requirement)
        if found is not None and found[1].lower() == name:
            return found[2]
    return None
