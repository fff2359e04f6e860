"""Relative dates in German, French and Spanish."""

from __future__ import annotations

import re
from datetime import datetime

from onlooker.policy import dates
from onlooker.policy.dates import Resolver, Rules

_NUMBERS = {
    **dict.fromkeys(["ein", "eine", "einem", "einer", "einen", "un", "une", "uno", "una"], 1),
    **dict.fromkeys(["zwei", "deux", "dos"], 2),
    **dict.fromkeys(["drei", "trois", "tres"], 3),
    **dict.fromkeys(["vier", "quatre", "cuatro"], 4),
    **dict.fromkeys(["fünf", "cinq", "cinco"], 5),
    **dict.fromkeys(["sechs", "six", "seis"], 6),
    **dict.fromkeys(["sieben", "sept", "siete"], 7),
    **dict.fromkeys(["acht", "huit", "ocho"], 8),
    **dict.fromkeys(["neun", "neuf", "nueve"], 9),
    **dict.fromkeys(["zehn", "dix", "diez"], 10),
}
N = r"(?P<n>\d{1,4}|" + "|".join(sorted(_NUMBERS, key=lambda w: (-len(w), w))) + ")"
_UNITS = (
    ("day", r"tag(?:en?)?|jours?|días?|dias?"),
    ("week", r"wochen?|semaines?|semanas?"),
    ("month", r"monat(?:en?)?|mois|mes(?:es)?"),
    ("year", r"jahr(?:en?)?|ans?|années?|años?"),
)
_DE_UNIT = r"(?P<unit>tag(?:en?)?|wochen?|monat(?:en?)?|jahr(?:en?)?)"
_FR_UNIT = r"(?P<unit>jours?|semaines?|mois|ans?|années?)"
_ES_UNIT = r"(?P<unit>días?|dias?|semanas?|mes(?:es)?|años?)"
_WEEKDAYS = (
    r"(?P<d0>montag|lundi|lunes)|(?P<d1>dienstag|mardi|martes)|(?P<d2>mittwoch|mercredi|mi[ée]rcoles)"
    r"|(?P<d3>donnerstag|jeudi|jueves)|(?P<d4>freitag|vendredi|viernes)|(?P<d5>samstag|sonnabend|samedi"
    r"|s[áa]bado)"
    r"|(?P<d6>sonntag|dimanche|domingo)"
)
DOW = rf"(?:{_WEEKDAYS})"


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text.lower()]


def _unit(text: str) -> str:
    return next(unit for unit, forms in _UNITS if re.fullmatch(forms, text, re.I))


def _weekday(found: re.Match[str]) -> int:
    return next(n for n in range(7) if found[f"d{n}"])


def _days(amount: int) -> Resolver:
    return lambda _, at: dates.day(at, amount)


def _by(sign: int) -> Resolver:
    return lambda found, at: dates.shifted(at, _unit(found["unit"]), sign * _number(found["n"]))


def _which(amount: int) -> Resolver:
    return lambda found, at: dates.shifted(at, _unit(found["unit"]), amount)


def _weekend(weekends: int) -> Resolver:
    return lambda _, at: dates.weekend(at, weekends)


def _next_weekend(_: re.Match[str], at: datetime) -> str | None:
    return dates.next_weekend(at)


def _last_weekday(found: re.Match[str], at: datetime) -> str:
    return dates.last_weekday(at, _weekday(found))


def _coming_weekday(found: re.Match[str], at: datetime) -> str:
    return dates.coming_weekday(at, _weekday(found))


def _next_weekday(found: re.Match[str], at: datetime) -> str | None:
    return dates.next_weekday(at, _weekday(found))


_GERMAN: tuple[tuple[str, Resolver], ...] = (
    (r"\bheute(?: (?:früh|morgen|mittag|nachmittag|abend|nacht))?\b", _days(0)),
    (r"\bgestern(?: (?:früh|morgen|mittag|nachmittag|abend|nacht))?\b", _days(-1)),
    (r"(?<!vor)\bvorgestern(?: abend)?\b", _days(-2)),
    # "Morgen" with a capital is the morning, or a greeting.
    (
        r"(?<!heute )(?<!gestern )(?<!guten )(?<!god )(?<!am )(?<!jeden )\b(?-i:morgen)(?: (?:früh|mittag"
        r"|nachmittag|abend))?\b",
        _days(1),
    ),
    (r"\bübermorgen\b", _days(2)),
    (rf"\bvor {N} {_DE_UNIT}\b", _by(-1)),
    (rf"\bin {N} {_DE_UNIT}\b", _by(1)),
    (r"\b(?:letzte|vergangene|vorige)[nrsm]? (?P<unit>woche|monat|jahr)\b", _which(-1)),
    (r"\b(?:diese)[nrsm]? (?P<unit>woche|monat|jahr)\b", _which(0)),
    (r"\b(?:nächste|kommende)[nrsm]? (?P<unit>woche|monat|jahr)\b", _which(1)),
    (r"\bvorletzte[nrsm]? (?P<unit>woche|monat|jahr)\b", _which(-2)),
    (r"\bübernächste[nrsm]? (?P<unit>woche|monat|jahr)\b", _which(2)),
    (r"\b(?:letzte|vergangene|vorige)[ns] wochenende\b", _weekend(-1)),
    (r"\bdiese[ns]? wochenende\b", _weekend(0)),
    (r"\bnächste[ns] wochenende\b", _next_weekend),
    (rf"\b(?:letzte|vergangene|vorige)n {DOW}\b", _last_weekday),
    (rf"\bkommenden {DOW}\b", _coming_weekday),
    (rf"\bnächsten {DOW}\b", _next_weekday),
)

_FRENCH: tuple[tuple[str, Resolver], ...] = (
    (r"\baujourd['’]hui\b|\bce (?:matin|soir)\b|\bcet après-midi\b", _days(0)),
    (r"(?<!avant-)\bhier(?: (?:matin|soir))?\b", _days(-1)),
    (r"\bavant-hier\b", _days(-2)),
    (r"(?<!après-)\bdemain(?: (?:matin|soir))?\b", _days(1)),
    (r"\baprès-demain\b", _days(2)),
    (rf"\bil y a {N} {_FR_UNIT}\b", _by(-1)),
    (rf"\bdans {N} {_FR_UNIT}\b", _by(1)),
    (r"\b(?:la|le) (?P<unit>semaine|mois) (?:derni[èe]re?|pass[ée]e?)\b", _which(-1)),
    (r"\bl['’](?P<unit>an|année) (?:derni[èe]re?|pass[ée]e?)\b", _which(-1)),
    (r"\b(?:cette|ce) (?P<unit>semaine|mois|année)(?:-ci)?\b", _which(0)),
    (r"\b(?:la|le) (?P<unit>semaine|mois) prochaine?\b", _which(1)),
    (r"\bl['’](?P<unit>an|année) prochaine?\b", _which(1)),
    (r"\ble week-?end (?:dernier|passé)\b", _weekend(-1)),
    (r"\bce week-?end\b", _weekend(0)),
    (r"\ble week-?end prochain\b", _next_weekend),
    (rf"\b{DOW} (?:dernier|passé)\b", _last_weekday),
    (rf"\b{DOW} prochain\b", _next_weekday),
)

_SPANISH: tuple[tuple[str, Resolver], ...] = (
    (r"\bhoy\b|\besta (?:mañana|tarde|noche)\b", _days(0)),
    (r"(?<!antes de )\bayer\b|\banoche\b", _days(-1)),
    (r"\banteayer\b|\bantier\b|\bantes de ayer\b", _days(-2)),
    (
        r"(?<!pasado )(?<!la )(?<!esta )(?<!cada )(?<!de )\bmañana(?: por la (?:mañana|tarde|noche))?\b",
        _days(1),
    ),
    (r"\bpasado mañana\b", _days(2)),
    (rf"\bhace {N} {_ES_UNIT}\b", _by(-1)),
    (rf"\b(?:dentro de|en) {N} {_ES_UNIT}\b", _by(1)),
    (r"\b(?:la|el) (?P<unit>semana|mes|año) pasad[oa]\b", _which(-1)),
    (r"\best[ea] (?P<unit>semana|mes|año)\b", _which(0)),
    (r"\b(?:la|el) (?P<unit>semana|mes|año) (?:que viene|próxim[oa])\b", _which(1)),
    (r"\b(?:la|el) próxim[oa] (?P<unit>semana|mes|año)\b", _which(1)),
    (r"\bel fin de semana pasado\b", _weekend(-1)),
    (r"\beste fin de semana\b", _weekend(0)),
    (r"\bel próximo fin de semana\b|\bel fin de semana que viene\b", _next_weekend),
    (rf"\bel {DOW} pasado\b", _last_weekday),
    (rf"\bel pasado {DOW}\b", _last_weekday),
    (rf"\bel próximo {DOW}\b", _next_weekday),
    (rf"\bel {DOW} que viene\b", _coming_weekday),
)


RULES = (
    Rules(
        "heute|gestern|morgen|tage|woche|monat|jahr|letzten|nächsten|kommenden|vergangenen|vorigen",
        *_GERMAN,
    ),
    Rules(
        "hui|matin|soir|week|mois|après|cette|hier|demain|jour|semaine| an|'an|’an|année|dernier|passé"
        "|prochain",
        *_FRENCH,
        hint=r"hui\b|\bce (?:matin|soir|week|mois)|\bcet après|\bcette|\bhier\b|demain|jour|semaine|mois\b"
        r"|\bans?\b|année|dernier|passé|prochain",
    ),
    Rules(
        "hoy|ayer|noche|antier|mañana|tarde|dia|día|semana|mes|año|pasado|próximo|viene",
        *_SPANISH,
        hint=r"\bhoy\b|ayer\b|noche|antier|mañana|tarde\b|\bd[íi]as?\b|semana|\bmes(?:es)?\b|años?\b"
        r"|pasado|próximo|viene",
    ),
)
