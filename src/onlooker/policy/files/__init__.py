"""MEMORY.md and daily notes: files for people, read and written as text."""
