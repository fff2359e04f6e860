"""What a session in memory does with messages that have outlived its limits."""

from __future__ import annotations

from onlooker.domain.history import Retention, RetentionResult
from onlooker.stores.held import Held, Record
from onlooker.stores.retaining import Kept, outlived


def retain(held: Held, limits: Retention, *, dry_run: bool) -> RetentionResult:
    standing = held.standing(summaries=False)
    kept = [Kept(r.seq, r.message.id, r.message.at, r.known.place == "live") for r in standing]
    decided = outlived(kept, limits, held.progress, pins=held.pins, notes=held.notes.values())
    if dry_run or decided.counts == RetentionResult():
        return decided.counts
    delete = {k.seq for k in decided.delete}
    archive = {k.seq for k in decided.archive}

    def moved(record: Record) -> Record | None:
        if record.known.summary or record.known.place == "retired":
            return record
        if record.seq in delete:
            return None
        return record.at(record.seq, "compacted") if record.seq in archive else record

    held.set_records(m for r in (*held.aside, *held.live) if (m := moved(r)) is not None)
    return decided.counts
