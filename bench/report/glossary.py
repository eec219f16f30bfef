"""The words of the report, each in a sentence."""

from __future__ import annotations

GLOSSARY: tuple[tuple[str, str], ...] = (
    (
        "community",
        "The processes interested in one topic; g is the bottom one, d its super-community, a the root.",
    ),
    ("c", "An event is gossiped to ln N + c others of a community of N."),
    ("g", "How many processes of a community are expected to send an event upward: links."),
    (
        "p_sel",
        "The probability that a process is a link for an event: g / N, where it is not given itself.",
    ),
    ("z", "Entries of the super-topic table, the contacts in the super-community."),
    ("a", "To how many of these z a link is expected to send."),
    ("reception", "The share of a community's live processes that an event reached."),
    ("reliability", "The share of events that reached every live process."),
    ("parasite", "An event received by a process that is not interested in it."),
    ("efficiency", "First receptions by all receptions."),
    (
        "round",
        "A hop: the publisher has the event in round 0, and who gets it in round r sends it in round r + 1.",
    ),
    (
        "network",
        "Real nodes that were started together: events on one share its tables, so intervals go by networks.",
    ),
)
