"""The parts of `StoreContract`."""

import pytest

# Else a failed assertion says only that it failed: this is no test module by its name.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in (
            "compaction",
            "hand",
            "indexing",
            "messages",
            "moving",
            "notes",
            "realignment",
            "search",
            "sessions",
            "work",
        )
    )
)
