"""Profiles: which of a topic's events an entity is to have, evaluated at the archive.

Profile.of(Tag("league", "serie-a"), Selector("minute > 80 AND score LIKE '%:0'"))
Profile.of(XPath("//goal[@team='Roma']"))
"""

from pubsub.archive.profiles.constraints import Equals, ProfileError, Selector, Tag
from pubsub.archive.profiles.profile import Constraint, Profile
from pubsub.archive.profiles.xpath import XPath

__all__ = ["Constraint", "Equals", "Profile", "ProfileError", "Selector", "Tag", "XPath"]
