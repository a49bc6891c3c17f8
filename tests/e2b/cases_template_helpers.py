"""The helpers of the SDK's template builder: which commands they become, as whom, and what is said where they cannot work."""
import json

import pytest_like as expect
from e2b import Template
from e2b.exceptions import BuildException
from template_builds import built, inside, name

# The small image has none of these programs, so that each writes down how it was called.
PROGRAM = r"""printf '#!/bin/sh\necho "${0##*/} $* as $(id -un) in $PWD" >> /srv/calls\n' > /bin/PROGRAM && chmod 755 /bin/PROGRAM"""
PROGRAMS = ("pip", "npm", "bun", "apt-get", "git")


def with_programs(world):
    lines = [PROGRAM.replace("PROGRAM", program) for program in PROGRAMS]
    return Template().from_image(world.image).run_cmd([*lines, "touch /srv/calls", "chmod 666 /srv/calls"], user="root")


def calls(info):
    return inside(info, "cat /srv/calls").splitlines()


def case_pip_installs_for_all_as_root_and_for_the_user(world):
    template = with_programs(world).pip_install(["flask", "six"]).pip_install("rich", g=False).set_workdir("/app").pip_install()
    info, lines = built(world, template)
    assert calls(info) == [
        "pip install flask six as root in /home/user", "pip install --user rich as user in /home/user", "pip install . as root in /app",
    ]
    assert any("RUN pip install flask six" in line for line in lines), lines


def case_npm_and_bun_install_in_a_project_and_for_all(world):
    template = with_programs(world)
    for install in ("npm_install", "bun_install"):
        for arguments, options in ((["left-pad"], {}), ([["a", "b"]], {"g": True}), (["tsx"], {"dev": True}), ([], {})):
            template = getattr(template, install)(*arguments, **options)
    info, _ = built(world, template)
    expected = []
    for program, dev in (("npm", "--save-dev"), ("bun", "--dev")):
        for words, user in (("left-pad", "user"), ("-g a b", "root"), (f"{dev} tsx", "user"), ("", "user")):
            expected.append(" ".join(f"{program} install {words}".split()) + f" as {user} in /home/user")
    assert calls(info) == expected


def case_apt_installs_as_root_after_a_look_for_what_is_new(world):
    info, _ = built(world, with_programs(world).apt_install("vim").apt_install(["git", "jq"], no_install_recommends=True, fix_missing=True))
    assert calls(info) == [
        "apt-get update as root in /home/user", "apt-get install -y vim as root in /home/user",
        "apt-get update as root in /home/user", "apt-get install -y --no-install-recommends --fix-missing git jq as root in /home/user",
    ]


def case_git_clones_as_the_user_that_is_named(world):
    url = "https://git.example/a.git"
    info, _ = built(world, with_programs(world).git_clone(url, "/srv/a b", branch="main", depth=1).git_clone(url, user="root"))
    assert calls(info) == [
        f"git clone {url} --branch main --single-branch --depth 1 /srv/a b as user in /home/user",
        f"git clone {url} as root in /home/user",
    ]


def case_a_helper_whose_program_is_missing_says_so(world):
    for add, program in (
        (lambda template: template.pip_install("six"), "pip"), (lambda template: template.npm_install(), "npm"),
        (lambda template: template.bun_install("tsx", g=True), "bun"), (lambda template: template.apt_install("vim"), "apt-get"),
        (lambda template: template.git_clone("https://git.example/a.git"), "git"),
    ):
        lines = []
        template = add(Template().from_image(world.image))
        error = expect.raises(BuildException, Template.build, template, name("bad"), on_build_logs=lines.append)
        assert "exit code 127" in str(error), error
        assert any(program in entry.message and "not found" in entry.message for entry in lines), (program, [entry.message for entry in lines])


def case_images_of_registries_that_are_not_open_are_refused_by_name(world):
    """This server's tenants may name one registry, and these images are of another."""
    for template, image in (
        (Template().from_debian_image("bookworm"), "debian:bookworm"), (Template().from_ubuntu_image("24.04"), "ubuntu:24.04"),
        (Template().from_fedora_image(), "fedora:"), (Template().from_alpine_image(), "alpine:"),
        (Template().from_arch_image(), "archlinux:latest"), (Template().from_python_image("3.12"), "python:3.12"),
        (Template().from_node_image(), "node:lts"), (Template().from_bun_image(), "oven/bun:latest"),
    ):
        wanted = json.loads(Template.to_json(template))["fromImage"]
        assert wanted.startswith(image), wanted
        error = expect.raises(BuildException, Template.build, template, name("bad"))
        assert "docker.io" in str(error) and "is not for tenants of this server" in str(error), (wanted, str(error))


def case_an_alias_exists_as_its_template_does(world):
    wanted = name("alias")
    assert Template.alias_exists(wanted) is False
    built(world, Template().from_image(world.image), name=wanted)
    assert Template.alias_exists(wanted) is True and Template.alias_exists("base") is True
    assert Template.alias_exists(wanted, api_key=world.other_key) is False
