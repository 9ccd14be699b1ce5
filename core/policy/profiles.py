"""The order of profiles: which of two allows no more, and which allows the least without asking."""

from __future__ import annotations

from core.policy.models import Profile

# For each profile, the profiles that allow no more than it does and deny everything that it denies.
_AS_STRICT: dict[Profile, frozenset[Profile]] = {
    Profile.TRUSTED: frozenset(Profile),
    Profile.GUARDED: frozenset({Profile.GUARDED, Profile.OBSERVE, Profile.LOCKDOWN}),
    # `observe` denies what `lockdown` only asks for; `lockdown` asks for what `observe` lets through.
    Profile.OBSERVE: frozenset({Profile.OBSERVE}),
    Profile.LOCKDOWN: frozenset({Profile.LOCKDOWN}),
}
_CAREFULNESS = {Profile.LOCKDOWN: 0, Profile.OBSERVE: 1, Profile.GUARDED: 2, Profile.TRUSTED: 3}


def is_as_strict(profile: Profile, before: Profile) -> bool:
    """Whether `profile` allows nothing that `before` did not allow, and asks for nothing that it denied."""
    return profile in _AS_STRICT[before]


def more_careful(profiles: list[Profile]) -> Profile:
    """The profile that allows the least without asking."""
    return min(profiles, key=_CAREFULNESS.__getitem__)
