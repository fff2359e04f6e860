"""Where sessions live: in memory for tests and trials, in an SQLite file for everything else."""
