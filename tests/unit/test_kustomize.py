"""Kustomize is found where a person says, and what it refuses is told."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from devstack.process import DevstackError
from tools import kustomize


def test_what_a_person_names_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUSTOMIZE_BIN", sys.executable)

    assert kustomize.find() == sys.executable
    kustomize.install()


@pytest.mark.parametrize("use", [kustomize.find, kustomize.install])
def test_a_wrong_name_is_told_and_not_replaced(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[], object]
) -> None:
    monkeypatch.setenv("KUSTOMIZE_BIN", "/nowhere/kustomize")

    with pytest.raises(DevstackError, match="KUSTOMIZE_BIN=/nowhere/kustomize is no executable"):
        use()


def test_where_there_is_none_the_way_to_one_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUSTOMIZE_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(kustomize, "OWN", tmp_path / "kustomize")

    with pytest.raises(DevstackError, match=r"python -m tools\.kustomize"):
        kustomize.find()


def test_what_kustomize_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [missing.yaml]\n")

    with pytest.raises(DevstackError, match=r"missing\.yaml"):
        kustomize.build(tmp_path)
