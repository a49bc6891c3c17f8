"""The two surfaces are one."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

import paddock

PAIRS = [
    (paddock.Sandbox, paddock.AsyncSandbox),
    (paddock.Process, paddock.AsyncProcess),
    (paddock.Filesystem, paddock.AsyncFilesystem),
    (paddock.Watch, paddock.AsyncWatch),
    (paddock.Contexts, paddock.AsyncContexts),
    (paddock.Client, paddock.AsyncClient),
    (paddock.Tools, paddock.AsyncTools),
    (paddock.Volumes, paddock.AsyncVolumes),
    (paddock.Resources, paddock.AsyncResources),
    (paddock.Secrets, paddock.AsyncSecrets),
    (paddock.Templates, paddock.AsyncTemplates),
    (paddock.Jobs, paddock.AsyncJobs),
]


def public(kind: type) -> Dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS, ids=lambda kind: kind.__name__)
def test_same_names_and_same_parameters(sync: type, asynchronous: type) -> None:
    ours, theirs = public(sync), public(asynchronous)
    assert set(ours) == {"close" if name == "aclose" else name for name in theirs}
    for name, value in ours.items():
        twin = theirs["aclose" if name == "close" else name]
        if not callable(value):
            continue
        parameters = inspect.signature(value).parameters
        twin_parameters = inspect.signature(twin).parameters
        assert list(parameters) == list(twin_parameters), name
        for parameter, other in zip(parameters.values(), twin_parameters.values()):
            assert (parameter.kind, parameter.default) == (other.kind, other.default), f"{name}({parameter})"


def test_every_public_method_has_an_explanation_or_a_plain_name() -> None:
    plain = {"id", "name", "persistent", "resume", "wake", "usage", "update", "stat", "exists", "move", "chmod"}
    plain |= {"close", "templates", "snapshots", "delete_snapshot"}
    for kind, _ in PAIRS:
        for name, value in public(kind).items():
            if (callable(value) or isinstance(value, property)) and name not in plain:
                assert value.__doc__, f"{kind.__name__}.{name} has no docstring"


def test_the_sync_surface_is_made_from_the_async_one() -> None:
    script = Path(__file__).parent.parent / "scripts" / "unasync.py"
    if not script.exists():
        pytest.skip("the package is tested without its sources")
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_all_that_is_public_is_named() -> None:
    for name in paddock.__all__:
        assert hasattr(paddock, name), name
