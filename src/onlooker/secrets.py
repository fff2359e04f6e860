"""Which secrets are masked, and how to mask more."""

from onlooker.policy.secrets import MASK, Secret, add_secret, find_secrets, mask

__all__ = ["MASK", "Secret", "add_secret", "find_secrets", "mask"]
