"""Running lists per person: "Ana speaks of: cities: Oslo, Bergen; pets: cat Miso".

The answer to "which cities" is spread over many days. A list collects it in one place for two tokens a
name, where the lines that it comes from would not all be kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from onlooker.models.extractive.clauses import Clause, is_call
from onlooker.policy.text import regex
from onlooker.policy.tokens import estimate

# -- The things that a clause names


def _any(*names: str, flags: re.RegexFlag = re.I) -> re.Pattern[str]:
    words = sorted((name for line in names for name in line.split("|")), key=len, reverse=True)
    return regex(r"\b(?:" + "|".join(map(re.escape, words)) + r")\b", flags)


_EXACT = re.RegexFlag(0)  # some place names are ordinary words in lower case

_NAMED: dict[str, re.Pattern[str]] = {
    "cities": _any(
        "Paris|London|Rome|Berlin|Madrid|Barcelona|Lisbon|Vienna|Prague|Amsterdam|Dublin|Edinburgh|Athens",
        "Istanbul|Moscow|Kyiv|Tokyo|Kyoto|Osaka|Seoul|Busan|Beijing",
        "Shanghai|Shenzhen|Taipei|Singapore|Bangkok",
        "Hanoi|Jakarta|Manila|Mumbai|Delhi|Bangalore|Dubai|Tel Aviv|Jerusalem|Cairo|Nairobi|Lagos|Cape Town",
        "Sydney|Melbourne|Auckland|Toronto|Montreal|Vancouver|Boston|Chicago|Seattle|Denver|Austin|Dallas",
        "Houston|Miami|Atlanta|Philadelphia|Detroit|Minneapolis|Nashville|New York City|New York|NYC",
        "Los Angeles|San Francisco|San Diego|Las Vegas|New Orleans|Hong Kong|Mexico City|Buenos Aires",
        "Rio de Janeiro|São Paulo|Lima|Bogotá|Santiago|Havana|Oslo|Bergen",
        "Stockholm|Copenhagen|Helsinki|Reykjavik",
        "Warsaw|Krakow|Budapest|Bucharest|Belgrade|Zagreb|Munich|Hamburg",
        "Frankfurt|Cologne|Zurich|Geneva|Milan",
        "Venice|Florence|Naples|Brussels|Lyon|Marseille|Porto|Seville|Manchester|Liverpool|Glasgow|Bristol",
        flags=_EXACT,
    ),
    "countries": _any(
        "France|Germany|Italy|Spain|Portugal|England|Scotland|Ireland|Wales|Sweden|Norway|Denmark|Finland",
        "Iceland|Poland|Austria|Switzerland|Belgium|Netherlands|Greece|Turkey|Russia|Ukraine|Hungary|Croatia",
        "Czech Republic|Romania|China|Japan|South Korea|Korea|India|Nepal",
        "Thailand|Vietnam|Indonesia|Malaysia",
        "Philippines|Taiwan|Australia|New Zealand|Canada|Mexico|Brazil|Argentina|Peru|Colombia|Cuba|Egypt",
        "Morocco|Kenya|Nigeria|Ghana|Ethiopia|South Africa|Israel|Iran|Iraq|Pakistan|UK|USA|United States",
        "United Kingdom",
        flags=_EXACT,
    ),
    "states": _any(
        "California|Texas|Florida|Oregon|Nevada|Arizona|Colorado|Utah|Montana|Michigan|Ohio|Illinois|Indiana",
        "Wisconsin|Minnesota|Virginia|Tennessee|Kentucky|Alabama|Louisiana|Hawaii|Alaska|Maine|Vermont|Idaho",
        "Massachusetts|Connecticut|Pennsylvania|North Carolina|South Carolina|New Jersey|New Mexico|Bavaria",
        flags=_EXACT,
    ),
    "activities, sports": _any(
        "yoga|kickboxing|boxing|taekwondo|karate|judo|basketball|football",
        "soccer|baseball|tennis|golf|volleyball",
        "hockey|rugby|cricket|badminton|swimming|surfing|diving|sailing|rowing|kayaking|skiing|snowboarding",
        "skating|running|jogging|marathon|hiking|camping|climbing|mountaineering",
        "cycling|biking|fishing|horseback riding",
        "gardening|pottery|painting|drawing|sculpting|photography|knitting|sewing|woodworking|baking|cooking",
        "reading|writing|blogging|dancing|ballet|pilates|weight training|circuit training|weightlifting",
        "meditation|chess|board games|gaming|video games|volunteering|singing|acting|bowling|archery|origami",
    ),
    "instruments": _any(
        "piano|guitar|violin|viola|cello|clarinet|flute|oboe|drums|saxophone|trumpet|trombone|ukulele|harp|banjo"
    ),
}
_PET = (
    "dog|dogs|puppy|pup|cat|cats|kitten|kitty|guinea pig|hamster|rabbit|turtle|turtles|tortoise|parrot|horse"
    "|lizard"
)
_PERSON = (
    "son|daughter|wife|husband|brother|sister|friend|colleague|coworker|boss|aunt|uncle|cousin|niece|nephew"
    "|mom|mum|dad|mother|father|grandma|grandmother|grandpa|grandfather|partner|fiancé|fiancée|girlfriend"
    "|boyfriend|neighbor|neighbour|teacher|coach|mentor|roommate|manager|teammate|buddy"
)


def _with_name(kinds: str) -> re.Pattern[str]:
    return regex(
        rf"\b(?:{kinds})(?:(?:,| is|'s) (?:named|called)| named| called|,)? (?-i:[A-Z][a-z]+)\b", re.I
    )


_PEOPLE = _with_name(_PERSON)
_PETS = (_with_name(_PET), regex(rf"\b(?-i:[A-Z][a-z]+),? (?:{_PET})\b|\b(?:{_PET})\b", re.I))
_TITLE = regex(r"[\"“]([^\"”\n]{3,50})[\"”]")
_OF_FILMS = regex(r"\b(?:movies?|films?|watch(?:ed|ing)?|shows?|tv|episodes?)\b", re.I)
_OF_BOOKS = regex(r"\b(?:books?|read(?:ing)?|novels?|authors?|trilogy|stor(?:y|ies))\b", re.I)
_OF_SONGS = regex(r"\b(?:songs?|music|album|listen(?:ed|ing)?|band|concert|tune)\b", re.I)
_OF_GAMES = regex(r"\b(?:games?|play(?:ed|ing)?|tournament)\b", re.I)
_TITLED = (("movies, shows", _OF_FILMS), ("books", _OF_BOOKS), ("music", _OF_SONGS), ("games", _OF_GAMES))
# Up to three words, none of which begins a phrase of place, time or reason.
_THING = (
    r"((?:(?!(?:for|from|to|at|in|on|with|of|and|that|because|last|this|yesterday|today|it|them|him|her)\b)"
    r"[\w'’-]+ ?){1,3})"
)
_DONE: dict[str, re.Pattern[str]] = {
    "bought": regex(
        rf"\b(?:bought|purchased|got (?:some |a )?new) (?:a |an |some |new |these |this )*{_THING}", re.I
    ),
    "attended, joined": regex(
        rf"\b(?:attended|joined|participated in|took part in|signed up for|enrolled in) "
        rf"(?:a |an |the |some |this )*{_THING}",
        re.I,
    ),
}
_NAMING = regex(r"(?:,| is|'s)? (?:named|called) |, ", re.I)
_UNTRUE = regex(r"\b(?:not|no|never|nor|without|if|unless|wish)\b|n't\b", re.I)


def things_in(clause: str, line: str) -> Iterator[tuple[str, str]]:
    """Yield the things that a clause names, each with its kind. `line` tells what a title belongs to.

    Questions, captions, denials and wishes are left out.
    """
    if clause.endswith("?") or clause.startswith("[") or _UNTRUE.search(clause):
        return
    for kind, pattern in _NAMED.items():
        exact = pattern.flags & re.I == 0
        yield from ((kind, found[0] if exact else found[0].lower()) for found in pattern.finditer(clause))
    yield from (("people", _without_naming(found[0])) for found in _PEOPLE.finditer(clause))
    yield from (("pets", _without_naming(name)) for name in _pets(clause))
    for kind, pattern in _DONE.items():
        yield from ((kind, found[1].strip()) for found in pattern.finditer(clause))
    for title in _TITLE.findall(clause):
        kind = next((kind for kind, words in _TITLED if words.search(line)), "")
        if kind:
            yield kind, f'"{title}"'


def _pets(clause: str) -> Iterable[str]:
    named = [found[0] for found in _PETS[0].finditer(clause)]
    return named or [found[0] for found in _PETS[1].finditer(clause)]


def _without_naming(name: str) -> str:
    """Return "dog Bo" for "dog named Bo" or "dog, Bo": in a list, commas separate things."""
    return _NAMING.sub(" ", name)


# -- The lists

_SPEAKS_OF = " speaks of"
_MAX_OF_A_KIND = 8
_MIN_THINGS = 3  # things per person: a shorter list says no more than the lines
_SHARE = 0.10  # of a reflection

# Things by speaker and kind, each with the place of its last mention.
_Things = dict[str, dict[str, dict[str, tuple[int, int]]]]


def is_list(clause: Clause) -> bool:
    return clause.speaker.endswith(_SPEAKS_OF)


def write_lists(clauses: Sequence[Clause], limit: int) -> list[Clause]:
    """Return a list for each speaker, continuing the lists among the clauses.

    No list is begun while all clauses fit into the limit.
    """
    if not any(map(is_list, clauses)) and sum(clause.cost for clause in clauses) <= limit:
        return []
    things = _collect(clauses)
    kinds = [of_kind for of_person in things.values() for of_kind in of_person.values()]
    lists = list(_list_clauses(things))
    while sum(clause.cost for clause in lists) > limit * _SHARE:
        longest = max(kinds, key=len)
        del longest[min(longest, key=lambda thing: longest[thing])]
        lists = list(_list_clauses(things))
    return lists


def _collect(clauses: Sequence[Clause]) -> _Things:
    things: _Things = {}
    lines: dict[int, str] = {}
    for clause in clauses:
        lines[clause.place[0]] = f"{lines.get(clause.place[0], '')} {clause.text}"
    for clause in clauses:
        for kind, thing in _named(clause, lines[clause.place[0]]):
            of_kind = things.setdefault(clause.speaker.removesuffix(_SPEAKS_OF), {}).setdefault(kind, {})
            of_kind[_known_name(of_kind, thing)] = clause.place
    return things


def _named(clause: Clause, line: str) -> Iterable[tuple[str, str]]:
    if is_list(clause):
        kind, _, names = clause.text.partition(": ")
        return [(kind, name) for name in names.split(", ")] if names else []
    # A call names its arguments, and an assistant what anybody might like.
    if not clause.speaker or is_call(clause.speaker) or clause.speaker in ("assistant", "system"):
        return []
    return things_in(clause.text, line)


def _known_name(of_kind: dict[str, tuple[int, int]], thing: str) -> str:
    """Return the name under which a thing is listed already, if only its capitals differ."""
    return next((name for name in of_kind if name.lower() == thing.lower()), thing)


def _list_clauses(things: _Things) -> Iterable[Clause]:
    for n, (person, kinds) in enumerate(things.items()):
        if sum(map(len, kinds.values())) < _MIN_THINGS:
            continue
        for k, (kind, of_kind) in enumerate(kinds.items()):
            newest = sorted(of_kind, key=lambda thing: of_kind[thing])[-_MAX_OF_A_KIND:]
            text = f"{kind}: {', '.join(newest)}"
            if newest:
                # Before everything that has a day.
                yield Clause(text, person + _SPEAKS_OF, "", (n - 1_000_000, k), cost=estimate(text) + 1)
