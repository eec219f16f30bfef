"""`camcast completion`: what a shell needs to complete the command's words and options."""

from __future__ import annotations

import argparse
from importlib import metadata
from typing import Any

from pubsub.cli import COMMANDS, PLUGINS, parser_for
from pubsub.cli.options import new_command

_BASH = """\
_camcast() {{
    local word said="camcast" words=""
    for word in "${{COMP_WORDS[@]:1:$((COMP_CWORD-1))}}"; do
        case "$said $word" in
            {paths}) said="$said $word" ;;
        esac
    done
    case "$said" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _camcast camcast
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def add_completion(commands: Any) -> None:
    parser = new_command(commands, "completion", "camcast completion bash")
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to complete for")
    parser.set_defaults(action=show)


def show(arguments: argparse.Namespace) -> int:
    words = words_by_path()
    if arguments.shell == "fish":
        print("\n".join(_fish(words)))
        return 0
    paths = " | ".join(f'"{path}"' for path in words if path != "camcast")
    cases = "\n".join(
        f'        "{path}") words="{" ".join(own)}" ;;' for path, own in words.items()
    )
    start = _ZSH if arguments.shell == "zsh" else ""
    print(start + _BASH.format(paths=paths, cases=cases), end="")
    return 0


def words_by_path() -> dict[str, list[str]]:
    """What may follow a command, such as `camcast bench run`: its sub-commands and options."""
    found: dict[str, list[str]] = {}
    plugins = [plugin.name for plugin in metadata.entry_points(group=PLUGINS)]
    for name in (*COMMANDS, *plugins):
        try:
            parser = parser_for([name])
        except ModuleNotFoundError:  # what it needs is not installed
            continue
        _add_words(parser, "camcast", found, name)
    return found


def _add_words(
    parser: argparse.ArgumentParser, path: str, found: dict[str, list[str]], only: str | None = None
) -> None:
    """`only`: the one sub-command whose options the parser knows."""
    words = found[path] = []
    for action in parser._actions:
        words += [name for name in action.option_strings if name.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):
            words += action.choices
            for name, inner in action.choices.items():
                if only in (None, name):
                    _add_words(inner, f"{path} {name}", found)


def _fish(words: dict[str, list[str]]) -> list[str]:
    lines = []
    for path, own in words.items():
        commands = path.split()[1:]
        seen = "; and ".join(f"__fish_seen_subcommand_from {one}" for one in commands)
        when = f"-n '{seen or '__fish_use_subcommand'}'"
        for word in own:
            how = f"-l {word[2:]}" if word.startswith("--") else f"-f -a {word}"
            lines.append(f"complete -c camcast {when} {how}")
    return lines
