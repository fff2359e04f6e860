"""What happens to the files that people read and edit."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from onlooker.domain.items import Item


@dataclass(frozen=True, slots=True)
class Consolidated:
    """A daily file whose notes became items; `archived` is where the file is now, empty while it stays.

    `items` are those that were new, ended ones among them; `problem` says why the file was left alone.
    """

    owner: str
    day: dt.date
    file: str
    items: tuple[Item, ...] = ()
    archived: str = ""
    problem: str = ""
