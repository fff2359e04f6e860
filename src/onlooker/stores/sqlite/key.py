"""The key of an encrypted database, and where it can come from. It is never shown."""

from __future__ import annotations

import os
import re
from hashlib import pbkdf2_hmac
from pathlib import Path
from threading import Lock

from onlooker.domain.errors import SettingsError

SIZE = 32  # bytes of a raw key
SALT = 16  # bytes at the beginning of an encrypted file
# How SQLCipher 4 derives a key from a passphrase, so that its own tools open the same files.
_ROUNDS = 256_000
_RAW = re.compile(rf"[0-9a-fA-F]{{{2 * SIZE}}}")

_HIDDEN = "…"  # instead of the value in an error


class Key:
    """The key of an encrypted database.

    `secret` is 32 bytes, or 64 hexadecimal digits for the same, or any other text, which is a passphrase.
    """

    __slots__ = ("_derived", "_lock", "_passphrase", "_raw")

    def __init__(self, secret: str | bytes) -> None:
        self._raw: bytes | None = None
        self._passphrase = b""
        if isinstance(secret, bytes):
            if len(secret) != SIZE:
                raise SettingsError("key", _HIDDEN, f"must be {SIZE} bytes, or text")
            self._raw = secret
        elif _RAW.fullmatch(secret):
            self._raw = bytes.fromhex(secret)
        else:
            self._passphrase = _usable(secret)
        self._derived: dict[bytes, bytes] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"Key({_HIDDEN})"

    def __reduce__(self) -> str:
        raise TypeError("a key cannot be pickled or copied")

    # -- where it comes from

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Key:
        """Read the key from a file: 32 bytes, or text, of which the line end is ignored.

        Raises:
            SettingsError: The file cannot be read, or does not contain a key.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            reason = error.strerror or str(error)
            raise SettingsError("key file", os.fspath(path), f"cannot be read ({reason})") from error
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return cls(content)
        return cls(text.rstrip("\r\n"))

    @classmethod
    def from_environment(cls, name: str = "ONLOOKER_KEY") -> Key:
        """Read the key from an environment variable.

        Raises:
            SettingsError: It is not set, or does not contain a key.
        """
        secret = os.environ.get(name)
        if secret is None:
            raise SettingsError("key", name, "is not set in the environment")
        return cls(secret)

    @classmethod
    def from_keyring(cls, service: str = "onlooker", user: str = "database") -> Key:
        """Read the key from the system's key ring; needs the package keyring.

        Raises:
            SettingsError: There is no such entry, no key ring, or no package.
        """
        try:
            import keyring  # pyright: ignore[reportMissingImports]
            from keyring.errors import KeyringError  # pyright: ignore
        except ImportError as error:
            raise SettingsError("key ring", service, "needs a package: pip install keyring") from error
        try:
            secret: object = keyring.get_password(service, user)  # pyright: ignore
        except KeyringError as error:  # pyright: ignore[reportUnknownVariableType]
            raise SettingsError("key ring", service, f"cannot be read ({type(error).__name__})") from error  # pyright: ignore
        if not isinstance(secret, str):
            raise SettingsError(
                "key ring", service, f"has no entry for {user!r}: keyring set {service} {user}"
            )
        return cls(secret)

    # -- for the driver alone

    def words(self, salt: bytes) -> str:
        """The key in SQLCipher's notation, for a file with that salt."""
        if self._raw is not None:
            return f"x'{self._raw.hex()}{salt.hex()}'"
        return f"x'{self._of(salt).hex()}{salt.hex()}'"

    def _of(self, salt: bytes) -> bytes:
        """The key derived from the passphrase. That is slow on purpose, so it is done once for each file."""
        with self._lock:
            if salt not in self._derived:
                self._derived[salt] = pbkdf2_hmac("sha512", self._passphrase, salt, _ROUNDS, SIZE)
            return self._derived[salt]


def _usable(passphrase: str) -> bytes:
    if not passphrase.strip():
        raise SettingsError("key", _HIDDEN, "must not be empty")
    try:
        return passphrase.encode()
    except UnicodeEncodeError:
        # The error would quote the passphrase.
        raise SettingsError("key", _HIDDEN, "must be valid Unicode text") from None


def key_of(secret: Key | str | bytes | None) -> Key | None:
    """A `Key` from any of the accepted types."""
    return secret if secret is None or isinstance(secret, Key) else Key(secret)
