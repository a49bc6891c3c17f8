"""Secrets as the SDK gives them; what the gate does with them is tested end to end."""

from __future__ import annotations

import pytest

import paddock
from paddock import Sandbox

from ..real_server import Server

SECRETS = {"API_KEY": {"value": "sk-the-real-one", "hosts": ["api.invalid"]}}


def test_inside_there_is_a_placeholder_and_a_fork_has_not_even_that(server: Server) -> None:
    with Sandbox.create(secrets=SECRETS, ttl_seconds=120) as box:
        assert box.info().secrets == {"API_KEY": ["api.invalid:443"]}
        inside = box.exec("printf %s $API_KEY").stdout
        assert inside.startswith("paddock-secret-")
        assert box.run_code("import os; os.environ['API_KEY']").text == repr(inside)
        # Nobody prints it, not even who knows it.
        assert box.exec("echo sk-the-real-one").stdout == "*" * 15 + "\n"
        with box.fork() as child:
            assert child.info().secrets == {}
            assert child.exec("echo [$API_KEY]").stdout == "[]\n"
        with box.fork(secrets=True) as child:
            assert child.exec("printf %s $API_KEY").stdout == inside


def test_a_bad_one_is_refused_without_its_value(server: Server) -> None:
    with pytest.raises(paddock.PaddockError, match="no name of a host") as raised:
        Sandbox.create(secrets={"API_KEY": {"value": "sk-the-real-one", "hosts": ["10.0.0.1"]}})
    assert "sk-the-real-one" not in str(raised.value)


def test_one_that_the_gate_sets_comes_and_goes_while_it_lives(server: Server) -> None:
    def rule(value: str) -> dict[str, object]:
        return {"value": value, "hosts": ["api.invalid"], "inject": {"authorization": "Bearer {}"}}

    with Sandbox.create(secrets=SECRETS, ttl_seconds=120) as box:
        inside = box.exec("printf %s $API_KEY").stdout
        for value in ("sk-of-the-day", "sk-of-the-night"):
            changed = box.update(network={}, secrets={"RULE": rule(value)})
            assert changed.secrets == {"API_KEY": ["api.invalid:443"], "RULE": ["api.invalid:443"]}
            assert box.exec(f"echo {value} $RULE").stdout == "*" * len(value) + "\n"
        assert box.update(network={}, secrets={"RULE": None}).secrets == {"API_KEY": ["api.invalid:443"]}
        assert box.exec("printf %s $API_KEY").stdout == inside
        with pytest.raises(paddock.PaddockError, match="placeholder"):
            box.update(network={}, secrets={"API_KEY": None})
        with pytest.raises(paddock.PaddockError, match="without `network`") as raised:
            box.update(secrets={"RULE": rule("sk-of-the-day")})
        assert "sk-of-the-day" not in str(raised.value)
