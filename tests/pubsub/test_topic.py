"""Paths, classes, inclusion and patterns."""

from __future__ import annotations

import abc
from typing import Any, Generic, Protocol, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.topic_name import TopicNameError
from pubsub.topic import Pattern, Topic

LEVEL = st.text("abcxyz0", min_size=1, max_size=3)
PATH = st.lists(LEVEL, max_size=5).map(lambda levels: "/" + "/".join(levels))


@given(PATH, PATH)
def test_inclusion_is_being_on_the_way_to_the_root(one: str, other: str) -> None:
    topic = Topic.of(one)
    on_the_way = {topic.name, *(ancestor.name for ancestor in topic.ancestors())}
    assert Topic.of(other).includes(topic) == (other in on_the_way)


@given(PATH)
def test_a_path_has_one_super_topic_a_level_less(path: str) -> None:
    topic = Topic.of(path)
    assert topic.level == len(topic.ancestors())
    assert topic.is_root == (path == "/")
    assert [parent.level for parent in topic.parents] == ([topic.level - 1] if topic.level else [])


@given(PATH, PATH)
def test_two_stars_mean_what_a_plain_topic_means(base: str, path: str) -> None:
    deep = Pattern.of(base.rstrip("/") + "/**")
    plain = Pattern.of(base)
    assert deep.topic == plain.topic
    assert deep.matches(path) == plain.matches(path)


@pytest.mark.parametrize(
    ("pattern", "joins", "takes", "leaves"),
    [
        ("/soccer/*", "/soccer", ["/soccer/italy"], ["/soccer", "/soccer/italy/rome", "/chess/a"]),
        ("/*/italy", "/", ["/soccer/italy"], ["/soccer", "/soccer/france", "/soccer/italy/rome"]),
        ("/*/italy/**", "/", ["/a/italy", "/a/italy/b/c"], ["/a", "/a/b", "/italy"]),
        ("/*", "/", ["/soccer"], ["/", "/soccer/italy"]),
    ],
)
def test_one_star_is_one_level(
    pattern: str, joins: str, takes: list[str], leaves: list[str]
) -> None:
    parsed = Pattern.of(pattern)
    assert parsed.topic.name == joins
    assert all(parsed.matches(topic) for topic in takes)
    assert not any(parsed.matches(topic) for topic in leaves)


@pytest.mark.parametrize("wrong", ["soccer", "/a/**/b", "/a*", "*", "//*", "/a/***", "/soccer/"])
def test_what_is_no_topic_and_no_pattern_is_refused(wrong: str) -> None:
    with pytest.raises(TopicNameError, match=r"is not a valid (topic|pattern)"):
        Pattern.of(wrong)


T = TypeVar("T")


class Animal(abc.ABC):  # noqa: B024 - abstract in name only
    ...


class Pet(Protocol): ...


class Cage(Generic[T]): ...


class Dog(Animal, Pet, Cage[int]): ...


class Poodle(Dog): ...


def test_the_class_hierarchy_is_the_topic_hierarchy() -> None:
    dog = Topic.of(Dog)
    assert [parent.name.rpartition(".")[2] for parent in dog.parents] == ["Animal", "Pet", "Cage"]
    assert all(parent.parents == (Topic.of("/"),) for parent in dog.parents)
    assert Topic.of(Animal).includes(Topic.of(Poodle))
    assert Topic.of("/").includes(Topic.of(Poodle))
    assert not Topic.of(Poodle).includes(dog)
    assert Topic.of(Poodle).level == 3
    assert Topic.of(Poodle).lineage[-1] == "/"


def test_a_topic_with_parents_of_its_own_says_so_in_its_lineage() -> None:
    a, b = Topic.of("/a"), Topic.of("/b")
    mixed = Topic("/x", (a, b))
    assert mixed.lineage == ("/a", "/b", "/")
    assert a.includes(mixed)
    assert b.includes(mixed)
    below = Topic("/x/y", (mixed,))
    assert below.lineage == ("/x", "/a", "/b", "/")
    assert Topic("/a/c", (a,)).lineage == ()
    assert Topic("/a/c", (a,)) == Topic.of("/a/c")


@pytest.mark.parametrize(
    ("name", "parents"),
    [
        ("x", (Topic.of("/"),)),
        ("/x", ()),
        ("/x", ("/",)),
        ("/", (Topic.of("/a"),)),
        ("/x", Topic.of("/a")),
    ],
)
def test_a_topic_that_cannot_be_in_the_hierarchy_is_refused(name: str, parents: Any) -> None:
    with pytest.raises(TopicNameError, match="is not a valid topic"):
        Topic(name, parents)
