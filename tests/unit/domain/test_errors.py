"""Errors carry facts."""

from __future__ import annotations

import pytest

from onlooker.domain import errors

LEAVES = ("SettingsError", "MessageError", "BudgetError", "StoreError", "ModelError", "ClosedError")


@pytest.mark.parametrize("name", LEAVES)
def test_everything_raised_on_purpose_has_one_root(name: str) -> None:
    assert issubclass(getattr(errors, name), errors.OnlookerError)


def test_a_conflict_is_an_error_of_the_store() -> None:
    assert issubclass(errors.ConflictError, errors.StoreError)


def test_the_tree_at_the_top_of_the_file_names_them_all() -> None:
    defined = {n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, Exception)}
    assert errors.__doc__
    assert {n for n in defined if n in errors.__doc__} == defined


def test_a_settings_error_names_key_value_and_what_is_allowed() -> None:
    error = errors.SettingsError("keep_recent", 9000, "must be below observe_at (8000)")
    assert str(error) == "keep_recent = 9000: must be below observe_at (8000)"
    assert (error.key, error.value) == ("keep_recent", 9000)


def test_a_budget_error_says_what_to_do() -> None:
    error = errors.BudgetError(100, 300, "the base prompt")
    assert "raise the budget or shorten the prompt" in str(error)
    assert (error.budget, error.needed) == (100, 300)
