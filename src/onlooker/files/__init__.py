"""Files outside the store: the journal, exports, and the Markdown files that people read and edit."""
