"""How a topic is written: `/soccer/italy`, with `/` for the root of all topics."""

from __future__ import annotations

from overlay.errors import UsageError

MAX_NAME_BYTES = 255
MAX_LEVELS = 32


class TopicNameError(UsageError):
    """The text is not the path of a topic."""


def check_topic_name(name: str) -> str:
    """Return `name` when it is a topic's path, else raise `TopicNameError` saying what is wrong.

    A path is `/`, or one to 32 non-empty levels each after a slash; at most 255 bytes of UTF-8;
    no `*` (kept for patterns), no white space at a level's ends, no control characters.
    """
    problem = _problem(name)
    if problem:
        raise TopicNameError(f"{name!r} is not a valid topic: {problem}")
    return name


def _problem(name: str) -> str | None:
    if not isinstance(name, str):
        return "a topic is text"
    if not name.startswith("/"):
        return "it must begin with a slash, as in /soccer/italy"
    if name == "/":
        return None
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it holds characters that UTF-8 cannot carry"
    if size > MAX_NAME_BYTES:
        return f"it has {size} bytes, and {MAX_NAME_BYTES} is the limit"
    levels = name[1:].split("/")
    if len(levels) > MAX_LEVELS:
        return f"it has {len(levels)} levels, and {MAX_LEVELS} is the limit"
    if not all(levels):
        return "it has an empty level (two slashes together, or one at the end)"
    if any(level != level.strip() for level in levels):
        return "a level begins or ends with white space"
    if "*" in name or not name.isprintable():
        return "stars and control characters are not allowed"
    return None
