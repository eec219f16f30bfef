"""What is raised for a profile that cannot be."""

from __future__ import annotations

from overlay.errors import UsageError


class ProfileError(UsageError):
    """The constraint or profile is none; the text says what is wrong with it."""
