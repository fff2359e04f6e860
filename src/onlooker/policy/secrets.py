"""Secrets: keys, tokens, passwords, private keys, card and account numbers. Found, counted and masked.

Three kinds of sign give one away: a prefix that its maker gave it (`ghp_`), a name before it (`DB_PASS=`),
and a checksum (a card number). Nothing is masked for looking random alone, but for 40 mixed characters: ids,
hashes and file names look random too, and notes have to keep those. Every pattern begins at a sign and reads
a bounded number of characters, or all that it then masks, so that a text of any size costs time in proportion
to its size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from typing import NamedTuple

from onlooker.policy.text import regex, said_once

MASK = "[secret]"


class Secret(NamedTuple):
    """Where a secret is in a text, and what it seems to be."""

    kind: str
    start: int
    end: int


# Most texts have none of these, and can have no token, key line or number that is a secret. The first two are
# in a run of characters, and the others have a digit. A pattern that begins with one character is found
# several times faster than one that begins with several.
_RUNS = {"<run>": (15, regex(r"[\w-]{15}", re.A)), "<long run>": (40, regex(r"[A-Za-z0-9+/]{40}"))}
_SHORTEST_RUN = 15
_NO_RUN = bytes(i if i < 128 and (chr(i).isalnum() or chr(i) in "_-+/") else 32 for i in range(256))
# Each with what a word of the text has in lower case.
_NUMBERS = {
    "<number>": (
        regex(r"\d\d\d(?:\d{10}|\d(?:[.-]\d{4}|(?!\S))|-\d\d-\d{4})"),
        regex(r"\d\d\d(?:\d{10}|\d[ .\u00a0\u202f-]\d{4}|-\d\d-\d{4})"),
    ),
    "<account>": (regex(r"[a-z][a-z]\d\d"), regex(r"[A-Z][A-Z]\d\d[ \u00a0]?[A-Z0-9]{4}")),
    "<PIN>": (regex(r"pin"), regex(r"PIN")),
}
_DIGIT = regex(r"\d")


class _Rule(NamedTuple):
    """One kind of secret: the text in lower case holds one of the signs, and the pattern finds it.

    A sign in angle brackets is one of the patterns above. What is masked is the group `secret`, or all that
    was found. `check` has the last word.
    """

    kind: str
    signs: tuple[str, ...]
    pattern: re.Pattern[str]
    check: Callable[[str], bool] = bool


# -- Signs within the secret itself


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _is_mixed(text: str) -> bool:
    """Whether small letters, capitals and digits are mixed, as in what no person wrote."""
    return (
        sum(map(str.isdigit, text)) > 2
        and sum(map(str.islower, text)) > 2
        and sum(map(str.isupper, text)) > 2
    )


# The prefixes that makers of tokens give them, and how the rest goes on.
_PREFIXED = (
    r"(?:sk|pk|rk)[-_](?:live|test|proj|ant|or|svcacct|admin)?[-_]?(?=[A-Za-z_-]{0,100}\d)[\w-]{16,}",
    r"gh[pousr]_\w{16,}", r"github_pat_\w{16,}", r"gl(?:pat|dt|rt|cbt|ft|soat|imt)-[\w-]{16,}",
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b", r"xox[a-z]-[\w-]{10,}", r"xapp-[\w-]{16,}", r"whsec_\w{16,}",
    r"AIza[\w-]{30,}", r"GOCSPX-[\w-]{20,}", r"ya29\.[\w-]{20,}", r"hf_\w{20,}", r"npm_\w{20,}",
    r"pypi-[\w-]{20,}", r"do[opr]_v1_[0-9a-f]{32,}", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    r"hv[sb]\.[\w-]{20,}", r"dapi[0-9a-f]{32}\b", r"SG\.[\w-]{16,32}\.[\w-]{16,64}", r"SK[0-9a-f]{32}\b",
    r"key-[0-9a-f]{32}\b", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}",
    r"\d{8,10}:AA[\w-]{32,}", r"[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,}", r"\w{3}\dQ~[\w~.-]{31,34}",
    r"gsk_\w{20,}", r"xai-\w{20,}", r"r8_\w{30,}", r"lin_api_\w{30,}", r"glsa_\w{20,}", r"NRAK-[A-Z0-9]{20,}",
    r"sq0(?:csp|atp)-[\w-]{20,}", r"EAAC[A-Za-z0-9]{30,}", r"PMAK-[\w-]{30,}", r"rubygems_[0-9a-f]{40,}",
    r"tskey-[\w-]{16,}", r"sntrys_\w{20,}", r"figd_[\w-]{20,}", r"ATATT3[\w=-]{30,}", r"pplx-\w{30,}",
)  # fmt: skip
# -- Names before the secret

# A name that says it all: whatever follows it is the secret, unless it is a word that is said of passwords.
_PASSWORD = (
    r"passw(?:or)?d|passphrase|passcode|pwd|passwort|kennwort|contraseña|mot\ de\ passe|senha|wachtwoord"
    r"|hasło|пароль|密码|密碼|口令|パスワード|暗証番号|비밀번호|(?<=_)pass|(?<![a-z])pass(?==)"
)
# A name that things other than secrets have too: only what looks like a key is taken.
_KEY_NAME = (
    r"secret|token|api[ _-]?key|(?:access|account|private|signing|encryption|shared|master|auth|license"
    r"|wifi|wi-fi|session|cookie|ssh|deploy|service|hmac|jwt|webhook|app)[ _-]?key|[a-z0-9]_key|credentials?"
    r"|bearer|client-key-data|[?&]sig|auth"
)
_AFTER_NAME = (
    r"[\w-]{0,30}\\{0,4}[\"'”’`*]{0,3}[\ \t]{0,8}"
    r"(?:=>|:=|==?|[:：]|>|(?<=[\s\w])(?:is|ist|es|est|era|was)(?=\s))[\ \t]{0,8}"
)
_QUOTED = r"\\{0,4}(?P<quote>[\"'`“‘])"
# A word that is said of a password, or stands where a program has one.
_HARMLESS_WORDS = """
    wrong incorrect invalid required optional missing empty none null nil true false string str text bytes int
    bool any object changed reset expired correct valid secure strong weak unknown unset hidden redacted
    masked here there not now too also being been still already only what that this your yours mine his hers
    the a an must should can cannot will would could stored saved encrypted hashed sent given asked needed
    protected used set shown visible default example password passwort secret token key value field input
    prompt login undefined undef void char varchar self case-sensitive safe leaked compromised fine good bad
    ok okay same different longer shorter falsch richtig
"""
_HARMLESS = frozenset(_HARMLESS_WORDS.split())
_PLACEHOLDER = regex(
    r"[$<{(\[*%]|os\.|process\.|env[.:(]|self\.|this\.|settings\.|config\.|request\.|args\.|params\.|getenv"
    r"|x{3,}|\.{2,}|-{2,}|_{2,}|\w+\(|\w+\[|your[-_ ]|\[secret\]",
    re.I,
)
_WORD = regex(r"[^\W\d_]+(?:[-'_.][^\W\d_]+)*")


def _is_password(value: str) -> bool:
    """Whether this stands after the word "password" because it is one."""
    bare = value.strip(".!?…,;:)*_`\"'”’")
    if len(bare) < 4 or _PLACEHOLDER.match(bare):
        return False
    # A capital is a sign in a sentence, and length is one beside a colon: "correcthorsebattery".
    return not (bare.lower() in _HARMLESS or (_WORD.fullmatch(bare) and bare.islower() and len(bare) < 12))


def _is_given(value: str) -> bool:
    return not _PLACEHOLDER.match(value)


def _is_argument(value: str) -> bool:
    return not _PLACEHOLDER.match(value) and not value.isdigit()  # -p 8080 is a port


def _is_key(value: str) -> bool:
    """Whether this looks like a key rather than a word, a number or a name in a program."""
    if _PLACEHOLDER.match(value) or len(value) < 8:
        return False
    digits = sum(map(str.isdigit, value))
    letters = sum(map(str.isalpha, value))
    return (
        letters > 1
        and (digits > 1 or (digits == 1 and len(value) >= 12))
        and not _IDENTIFIER.fullmatch(value)
    )


# A name in a program, a path, a version or a date: `token_v2`, `tokens/page-2.json`, `2026-02-16T10:00`.
_IDENTIFIER = regex(
    r"[a-z]+(?:[-_./][a-z]+)*[-_.]?v?\d{0,3}(?:\.[a-z]{1,5})?|\d{4}-\d\d-\d\d.*|v?\d+(?:[.,]\d+)*[a-z]{0,3}"
    r"|[A-Z][A-Z_]*\d{0,2}",
    re.A,
)

# -- Numbers with a checksum

# By country, as in the register of IBANs.
_ACCOUNT_REGISTER = """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24
    FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32
    LI21 LT20 LU20 LV21 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24
    SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20
"""
_ACCOUNT_LENGTHS = {entry[:2]: int(entry[2:]) for entry in _ACCOUNT_REGISTER.split()}


def _is_card(text: str) -> bool:
    """Whether a number passes Luhn's check and has the length and first digits of a card number."""
    digits = [int(c) for c in text if c.isdigit()]
    if not 13 <= len(digits) <= 19 or digits[0] not in (2, 3, 4, 5, 6):
        return False
    doubled = sum(sum(divmod(2 * d, 10)) for d in digits[-2::-2])
    return (doubled + sum(digits[-1::-2])) % 10 == 0


def _is_account(text: str) -> bool:
    """Whether the check digits of an IBAN are right."""
    bare = text.replace(" ", "").replace("\u00a0", "")
    if len(bare) != _ACCOUNT_LENGTHS.get(bare[:2]):
        return False
    return int("".join(str(int(c, 36)) for c in bare[4:] + bare[:4])) % 97 == 1


def _accounts(text: str) -> Iterator[tuple[int, int]]:
    """An IBAN is as long as its country says: what follows it may look like a part of it."""
    for found in _ACCOUNT.finditer(text):
        length, at = _ACCOUNT_LENGTHS.get(found[0][:2], 0), found.start()
        while length and at < found.end():
            length -= text[at] not in " \u00a0"
            at += 1
        if not length and _is_account(text[found.start() : at]):
            yield found.start(), at


_ACCOUNT = regex(r"\b[A-Z]{2}\d\d(?:[ \u00a0]?[A-Z0-9]){11,34}")

# -- Private keys, whose lines may have lost their beginning or end

_KEY_BEGIN = regex(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d:")
_KEY_END = regex(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|Private-MAC: [0-9a-f]+")
_KEY_LINES = regex(
    r"(?:(?<![^\s\"'])[A-Za-z0-9+/=]{48,76}(?:\\r)?(?:\\n|\r?\n)[ \t]{0,16}){2,}"
    r"(?:[A-Za-z0-9+/=]{1,76}(?![^\s\"'\\]))?"
)
_MAX_KEY = 20_000


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while begin := _KEY_BEGIN.search(text, at):
        end = _KEY_END.search(text, begin.end(), begin.end() + _MAX_KEY)
        at = end.end() if end else min(len(text), begin.end() + _MAX_KEY)
        yield begin.start(), at
    # A long text is cut before it is read, perhaps within a key.
    for lines in _KEY_LINES.finditer(text):
        if _is_mixed(lines[0][:64]):
            yield lines.span()


# -- All rules

_WORDS = r"(?:[a-z]{2,12}[ ,]{1,2}){3,23}[a-z]{2,12}"
_RULES: tuple[_Rule, ...] = (
    _Rule("token", ("<run>",), regex(r"(?<![A-Za-z0-9])(?:" + "|".join(_PREFIXED) + ")", re.A)),
    _Rule("token", ("eyj",), regex(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}(?:\.[\w-]+)?", re.A)),
    _Rule(
        "AWS secret", ("<long run>",),
        regex(r"(?<![\w/+.=-])[A-Za-z0-9/+]{40}(?![\w/+=-])", re.A), _is_mixed,
    ),
    _Rule(
        "webhook", ("hooks.slack.com/", "/api/webhooks/", "webhook.office.com/"),
        regex(
            r"(?:hooks\.slack\.com/\w{1,20}|/api/webhooks|webhook\.office\.com/\w{1,20})/"
            r"(?P<secret>[\w/@.-]{16,})", re.A,
        ),
    ),
    _Rule(
        "password in an address", ("://",),
        regex(
            r"://[^\s/:@\"'<>]{0,100}:(?!\d{1,5}[/?#])(?P<secret>[^\s\"'<>]{1,200}?)"
            r"@(?=[^\s\"'<>/?#@]{0,200}(?:[\s\"'<>/?#]|\Z))"
        ),
        _is_given,
    ),
    _Rule(
        "token in an address", ("://",),
        regex(r"://(?P<secret>[\w.-]{20,200})(?::[\w-]{0,40})?@", re.A), _has_digit,
    ),
    _Rule(
        "password", (
            "passw", "passph", "passc", "passd", "pwd", "_pass", "pass=", "kennwort", "contraseña",
            "mot de passe", "senha", "wachtwoord", "hasło", "пароль", "密码", "密碼", "口令",
            "パスワード", "暗証番号", "비밀번호",
        ),
        regex(
            rf"(?:{_PASSWORD}){_AFTER_NAME}(?:{_QUOTED}(?P<quoted>[^\"'`“”‘’\n]{{4,100}})|(?P<plain>[^\s\"'`<>,;&）]{{4,100}}))",
            re.I | re.X,
        ), _is_password,
    ),
    _Rule(
        "key", ("secret", "token", "key", "credential", "bearer", "sig=", "auth"),
        regex(rf"(?:{_KEY_NAME}){_AFTER_NAME}{_QUOTED}?(?P<plain>[^\s\"'`<>,;&）]{{8,600}})", re.I | re.X),
        _is_key,
    ),
    _Rule(
        "authorization", ("bearer", "basic", "authorization"),
        regex(
            r"(?:\b(?:bearer|basic)|authorization\\?[\"']?\s?[:=]\s?\\?[\"']?\w{1,12})\s{1,3}(?P<secret>[\w.~+/-]{16,600}=*)",
            re.I | re.A,
        ),
        _is_key,
    ),
    _Rule(
        "cookie", ("cookie",),
        regex(r"cookie\\?[\"']?\s?:\s?\\?[\"']?(?P<secret>[\w.-]{1,60}=[^\n\"'\\]{8,1000})", re.I | re.A),
    ),
    _Rule(
        "password on a command line", ("-u", "--user", " -p"),
        regex(
            r"\b(?:curl|wget|http|mysql\w{0,6}|mariadb|sshpass|psql|redis-cli)\b[^\n]{0,200}?\s"
            r"(?:(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,60}:|-p ?|-a )[\"']?(?P<secret>[^\s\"']{4,100})"
        ),
        _is_argument,
    ),
    _Rule(
        "phrase", ("phrase", "mnemonic"),
        regex(
            rf"(?:phrase|mnemonic)[\w ]{{0,12}}\\?[\"']?\s?(?:[:=]|\bis\b)\s?\\?[\"']?(?P<secret>{_WORDS})",
            re.I,
        ),
    ),
    _Rule("PIN", ("<PIN>",), regex(r"\bPIN\b(?: ?(?:code|number))?(?: is|:|=| ist)\s?(?P<secret>\d{4,8})\b")),
    _Rule(
        "card number", ("<number>",),
        regex(
            r"(?<!\w)(?<!\d[.,-])(?:\d{13,19}|\d{4}(?P<a>[ .\u00a0\u202f-])\d{4}(?P=a)\d{4}(?P=a)\d{1,7}"
            r"|\d{4}(?P<b>[ .\u00a0\u202f-])\d{6}(?P=b)\d{5})(?!\d|[.,-]\d)"
        ), _is_card,
    ),
    _Rule(
        "social security number", ("<number>",),
        regex(r"(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\d-])"),
    ),
    _Rule("Ethereum key", ("0x",), regex(r"\b0x[0-9a-fA-F]{64}\b")),
)  # fmt: skip

_SIGNS = sorted({sign for rule in _RULES for sign in rule.signs} - _RUNS.keys() - _NUMBERS.keys())
# What several of them have in common, so that most are not looked for. Whatever is looked for is within a
# word: a long text is searched as its words in any order.
_IN_COMMON = ("-p", "-u", "auth", "hook", "pass")
_SIGNS_WITH = {
    part: tuple(sign for sign in _SIGNS if part in sign)
    for part in (*_IN_COMMON, *(sign for sign in _SIGNS if not any(part in sign for part in _IN_COMMON)))
}
_ASCII_SIGNS_WITH = {part: signs for part, signs in _SIGNS_WITH.items() if part.isascii()}

# Patterns of the program that uses Onlooker, with what they find.
_more: dict[str, re.Pattern[str]] = {}


def add_secret(kind: str, pattern: str) -> None:
    """Mask what this pattern finds too, or its group `secret`, in every memory of this process."""
    _more[kind] = re.compile(pattern)


def find_secrets(text: str) -> list[Secret]:
    """Find the secrets of a text, in order. Where two overlap, they are one."""
    signs = _signs_in(text)
    if not signs and not _more:  # so it is with most texts
        return []
    found = sorted(_found(text, signs), key=lambda secret: (secret.start, -secret.end))
    kept: list[Secret] = []
    for secret in found:
        if kept and secret.start < kept[-1].end:
            kept[-1] = kept[-1]._replace(end=max(secret.end, kept[-1].end))
        else:
            kept.append(secret)
    return kept


def mask(text: str) -> str:
    """Replace each secret in a text with `[secret]`."""
    secrets = find_secrets(text)
    if not secrets:
        return text
    parts: list[str] = []
    at = 0
    for secret in secrets:
        parts += (text[at : secret.start], MASK)
        at = secret.end
    return "".join((*parts, text[at:]))


def _found(text: str, signs: Set[str]) -> Iterator[Secret]:
    for kind, wanted, pattern, check in _RULES:
        if signs.isdisjoint(wanted) or (wanted == ("<run>",) and not pattern.search(_long_words(text))):
            continue
        for begin, stop in _near(text, wanted) if kind in _NAMED else [(0, len(text))]:
            for found in pattern.finditer(text, begin, stop):
                start, end = _span(found)
                if check(text[start:end]):
                    yield Secret(kind, start, _without_stop(text, start, end))
    if "key" in signs or "<long run>" in signs:
        yield from (Secret("private key", *span) for span in _private_keys(text))
    if "<account>" in signs:
        yield from (Secret("account number", *span) for span in _accounts(text))
    for kind, pattern in _more.items():
        yield from (Secret(kind, *_span(found)) for found in pattern.finditer(text) if found[0])


def _signs_in(text: str) -> set[str]:
    words, lower = said_once(text), text.lower()
    said = " ".join(words)
    maybe = _ASCII_SIGNS_WITH if said.isascii() else _SIGNS_WITH
    signs = {sign for part, signs in maybe.items() if part in said for sign in signs if sign in lower}
    # Patterns take longer than everything else here, and most texts have neither a long run nor a digit.
    if max(map(len, words), default=0) >= _SHORTEST_RUN and (longest := _longest_run(text)) >= _SHORTEST_RUN:
        signs.update(name for name, (size, run) in _RUNS.items() if longest >= size and run.search(text))
    if _DIGIT.search(said):
        for name, (in_word, guard) in _NUMBERS.items():
            if in_word.search(said) and guard.search(text):
                signs.add(name)
    return signs


def _longest_run(text: str) -> int:
    return max(map(len, text.encode("ascii", "replace").translate(_NO_RUN).split()), default=0)


def _long_words(text: str) -> str:
    """Return the words that are long enough for a token, each once: none goes beyond a blank."""
    return " ".join({word for word in text.split() if len(word) >= _SHORTEST_RUN})


# "Key" is a word of every conversation, and the patterns of secrets with a name before them are slow. A match
# begins at most so many characters before its sign, and ends at most so many after it.
_NAMED = ("key", "password")
_BEFORE_SIGN, _AFTER_SIGN = 20, 720
# How such a sign goes on, in lower case: what says that a secret follows.
_GOES_ON = regex(
    r"[\w-]{0,44}\\{0,4}[\"'”’`*]{0,3}[ \t]{0,8}(?:[=:：>]|(?:is|ist|es|est|era|was)\s)",
)


def _near(text: str, signs: Sequence[str]) -> list[tuple[int, int]]:
    """Return where a secret with a name before it may be: around the signs of one."""
    lower = text.lower()
    if len(lower) != len(text):
        return [(0, len(text))]
    parts: list[tuple[int, int]] = []
    for at in sorted(place for sign in signs for place in _places(lower, sign.rstrip("="))):
        start = max(0, at - _BEFORE_SIGN)
        if parts and start <= parts[-1][1]:
            start = parts.pop()[0]
        parts.append((start, at + _AFTER_SIGN))
    return parts


def _places(lower: str, sign: str) -> Iterator[int]:
    """Find where a text has a sign that goes on as before a secret."""
    at = lower.find(sign)
    while at >= 0:
        if _GOES_ON.match(lower, at + len(sign)):
            yield at
        at = lower.find(sign, at + 1)


def _span(found: re.Match[str]) -> tuple[int, int]:
    groups = found.re.groupindex
    for name in ("secret", "quoted", "plain"):
        if name in groups and found[name] is not None:
            return found.span(name)
    return found.span()


def _without_stop(text: str, start: int, end: int) -> int:
    """The end of a secret, without the mark that ends its sentence or string."""
    while end > start + 1 and text[end - 1] in ".:)]}*\\”’":
        end -= 1
    return end
