"""The transactions of a store in SQL, written once for every database.

transactions.py  the methods of a `Store`, one transaction each
sessions.py  messages.py  realignment.py  notes.py  corrections.py  items.py  search.py  vectors.py  graph.py
                 what happens inside a transaction
transfer.py      the store as rows: dump, restore, read-only snapshots
rows.py          between rows and domain objects
database.py      what a transaction runs statements on; each database implements it
migrations.py    numbered steps of the schema, and which versions work together
queries/         the statements that all databases share
"""
