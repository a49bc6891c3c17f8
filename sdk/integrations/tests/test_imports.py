"""Each provider imports its own framework and none of the others; the guide names the versions that are tried."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import GUIDE

#: By module, the framework that it is for.
FRAMEWORKS = {
    "autogen": ["autogen_core"],
    "claude_agent_sdk": ["claude_agent_sdk"],
    "claude_managed_agents": ["anthropic"],
    # It brings the clients of several models.
    "deepagents": ["deepagents", "anthropic"],
    "deepagents_code": ["deepagents_code", "deepagents", "anthropic"],
    "dockerfile": [],
    "google_adk": ["google.adk"],
    "harbor": ["harbor"],
    # It looks whether there is such a client, and imports none.
    "inspect": ["inspect_ai", "anthropic"],
    "nemo_gym": ["nemo_gym"],
    "openai_agents": ["agents"],
    "pydantic_ai": ["pydantic_ai"],
    "smolagents": ["smolagents"],
    "strands": ["strands"],
    "swe_rex": ["swerex"],
}
ALL = sorted({name for names in FRAMEWORKS.values() for name in names})
PACKAGE = Path(__file__).resolve().parents[1] / "src" / "paddock_integrations"
REFUSING = """
import importlib, sys

class Refuses:
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in {refused!r}):
            raise ImportError(f"{{name}} was not asked for", name=name)

sys.meta_path.insert(0, Refuses())
importlib.import_module({module!r})
print("imported", *sorted(name for name in {refused!r} if name in sys.modules))
"""


def imported(module: str, refused: list[str]) -> str:
    """What a fresh interpreter says after the import, where these frameworks are not to be had."""
    program = REFUSING.format(module=module, refused=refused)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else ran.stderr


def is_here(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_every_module_is_tried() -> None:
    found = {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("_")}
    # Parts of another one.
    assert found - {"openai_agents_pty", "swe_rex_session"} == set(FRAMEWORKS)


@pytest.mark.parametrize(
    "module", ["paddock_integrations", "paddock_integrations._shared", "paddock_integrations._lease"]
)
def test_what_all_share_imports_no_framework(module: str) -> None:
    assert imported(module, ALL) == "imported"


# Harbor has an environment of its own, and NeMo Gym wants Python 3.12.
@pytest.mark.parametrize("module", [name for name, wants in FRAMEWORKS.items() if all(map(is_here, wants))])
def test_a_provider_imports_its_own_framework_alone(module: str) -> None:
    refused = [name for name in ALL if name not in FRAMEWORKS[module]]
    assert imported(f"paddock_integrations.{module}", refused) == "imported"


def test_the_guide_names_the_versions_that_are_fetched() -> None:
    root = Path(__file__).resolve().parents[3]
    fetched = re.findall(
        r'"(@[^"]+)@([\d.]+)"', re.search(r"AGENTS = .*", (root / "scripts/packages.py").read_text())[0]
    )
    assert len(fetched) == 2
    guide = GUIDE.read_text()
    assert [name for name, version in fetched if f"npm {version}" not in guide] == []
