"""The full suite, which also writes docs/validation.md."""

from __future__ import annotations

import pytest

from . import report


@pytest.mark.slow
def test_full_suite():
    assert report.main([]) == 0
