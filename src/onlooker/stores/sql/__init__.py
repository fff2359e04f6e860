"""The transactions of a store in SQL, written once for every database.

transactions.py  the methods of a `Store`, one transaction each, and how one is run
sessions.py      what a turn needs of a session: its row, messages, notes, lease
retention.py  realignment.py  notes.py  corrections.py  items.py  indexes.py
                 what else happens inside a transaction
transfer.py      the store as rows: dump, restore, read-only snapshots
inspection.py    what a store holds
database.py      what a transaction runs statements on, rows as domain objects, the migrations of the schema
queries/         the statements that all databases share
"""
