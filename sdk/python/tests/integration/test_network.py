from __future__ import annotations

import pytest

import paddock
from paddock import Sandbox

from ..real_server import Server

FETCH = "curl -sS -o /dev/null http://other.invalid/"


def test_rules_are_told_and_changed(server: Server) -> None:
    with Sandbox.create(network={"allow": ["web.invalid:80"]}, ttl_seconds=120) as box:
        assert box.info().guarantees["network"] == "gate"
        box.exec(FETCH)
        seen = box.network()
        assert seen.network == "gate"
        assert seen.rules is not None
        assert seen.rules["allow"] == ["web.invalid:80"]
        denied = [decision for decision in seen.decisions if decision.verdict == "denied"]
        assert denied[-1].name == "other.invalid"
        assert denied[-1].advice == "to allow it: --allow-net other.invalid:80"
        assert "other.invalid:80" in seen.needed
        box.update(network={"allow": ["other.invalid"]})
        assert box.network(after=seen.last).rules == {**seen.rules, "allow": ["other.invalid"]}
        box.update(network="none")
        rules = box.network().rules
        assert rules is not None
        assert rules["allow"] == []


def test_without_rules_there_is_no_link(server: Server) -> None:
    with Sandbox.create(ttl_seconds=120) as box:
        assert box.network().network == "none"
        with pytest.raises(paddock.PaddockError, match="no link"):
            box.update(network={"allow": ["web.invalid"]})


def test_a_bad_rule_is_refused_with_its_value(server: Server) -> None:
    with pytest.raises(paddock.PaddockError, match="is a URL"):
        Sandbox.create(network={"allow": ["https://web.invalid/"]})
