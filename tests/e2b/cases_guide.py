"""The table of methods in docs/guides/e2b.md, compared with what the SDK has; and what of it needs few lines."""
import inspect
import json
import os
import re

import e2b
import e2b_code_interpreter
import pytest_like as expect
from e2b import E2B, Template
from e2b.sandbox_async.commands.command import Commands as AsyncCommands
from e2b.sandbox_async.commands.pty import Pty as AsyncPty
from e2b.sandbox_async.filesystem.filesystem import Filesystem as AsyncFilesystem
from e2b.sandbox_async.git import Git as AsyncGit
from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.commands.pty import Pty
from e2b.sandbox_sync.filesystem.filesystem import Filesystem
from e2b.template.main import TemplateBuilder

GUIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "guides", "e2b.md")
# The classes whose methods the table has, by their names there.
KINDS = {
    "Sandbox": (e2b_code_interpreter.Sandbox, e2b_code_interpreter.AsyncSandbox),
    "SandboxPaginator": (e2b.SandboxPaginator, e2b.AsyncSandboxPaginator),
    "SnapshotPaginator": (e2b.SnapshotPaginator, e2b.AsyncSnapshotPaginator),
    "commands": (Commands, AsyncCommands),
    "CommandHandle": (e2b.CommandHandle, e2b.AsyncCommandHandle),
    "AsyncCommandInputHandle": (e2b.AsyncCommandInputHandle,),
    "pty": (Pty, AsyncPty),
    "files": (Filesystem, AsyncFilesystem),
    "WatchHandle": (e2b.WatchHandle, e2b.AsyncWatchHandle),
    "git": (e2b.Git, AsyncGit),
    "Template": (e2b.Template, e2b.AsyncTemplate, TemplateBuilder),
    "Volume": (e2b.Volume, e2b.AsyncVolume),
    "Secret": (e2b.Secret, e2b.AsyncSecret),
    "SecretPaginator": (e2b.SecretPaginator, e2b.AsyncSecretPaginator),
}


def methods(kinds):
    found = ((name, value) for kind in kinds for name, value in inspect.getmembers(kind))
    return {name for name, value in found if not name.startswith("_") and callable(value)}


def rows():
    """Of each row of the table: what is named with its class, what without, the verdict and the reason."""
    with open(GUIDE, encoding="utf-8") as file:
        section = file.read().split("\n## Methods\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            named, verdict, reason = line[2:].split(" | ", 2)
            yield *names(named), verdict.strip(), reason.rstrip("|").strip()


def names(cell):
    """A name without a class is of the class before it; parameters are named so too, and are nobody's methods."""
    owner, qualified, bare = "Sandbox", set(), set()
    for text in re.findall(r"`([^`]+)`", cell):
        left, dot, right = re.split(r"[(=]", text)[0].rpartition(".")
        if dot and left not in KINDS:
            continue
        owner = left if dot else owner
        (qualified if dot else bare).add((owner, right))
    return qualified, bare


def case_each_method_of_the_sdk_is_in_the_table_of_the_guide(_):
    qualified, bare, wrong = set(), set(), []
    for with_class, without, verdict, reason in rows():
        qualified |= with_class
        bare |= without
        if verdict not in ("works", "differs", "cannot") or (verdict != "works" and not reason):
            wrong.append((with_class | without, verdict, reason))
    assert not wrong, f"neither works, differs nor cannot, or without a reason: {wrong}"
    there = {(kind, name) for kind, classes in KINDS.items() for name in methods(classes)}
    assert not there - qualified - bare, f"the guide's table does not have {sorted(there - qualified - bare)}"
    assert not qualified - there, f"the SDK does not have {sorted(qualified - there)}"
    functions = {name for name in e2b.__all__ if inspect.isfunction(getattr(e2b, name))}
    missing = functions - {name for _, name in bare}
    assert not missing, f"the guide's table does not have the functions {sorted(missing)}"


def steps(template):
    return [step["type"] for step in json.loads(Template.to_json(template))["steps"]]


def case_helpers_of_a_template_are_commands_and_images_have_names(_):
    """So that they work where `run_cmd` and `from_image` do."""
    begun = Template().from_image("base")
    begun.apt_install("a").pip_install("b").npm_install("c").bun_install("d").git_clone("https://git.example/e.git", "/e")
    begun.make_dir("/f").make_symlink("/f", "/g").remove("/g").rename("/f", "/h")
    assert steps(begun) == ["RUN"] * 9
    for made, image in (
        (Template().from_debian_image("trixie"), "debian:trixie"), (Template().from_ubuntu_image("26.04"), "ubuntu:26.04"),
        (Template().from_fedora_image("44"), "fedora:44"), (Template().from_alpine_image("3.24"), "alpine:3.24"),
        (Template().from_arch_image("latest"), "archlinux:latest"), (Template().from_python_image("3.13"), "python:3.13"),
        (Template().from_node_image("lts"), "node:lts"), (Template().from_bun_image("1"), "oven/bun:1"),
    ):
        assert json.loads(Template.to_json(made))["fromImage"] == image
        assert Template.to_dockerfile(made.run_cmd("true")) == f"FROM {image}\nRUN true\n"


def case_a_client_has_a_key_of_its_own(world):
    at = {"api_url": world.url, "sandbox_url": world.url}
    own, other = E2B(api_key=world.key, **at), E2B(api_key=world.other_key, **at)
    with own.Sandbox.create() as sandbox:
        assert sandbox.commands.run("echo bound").stdout == "bound\n"
        expect.raises(e2b.SandboxException, other.Sandbox.connect, sandbox.sandbox_id)
