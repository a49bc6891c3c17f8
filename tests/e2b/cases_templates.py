"""Templates with the Python SDK, both flavours: builds, files, tags, and the server's own API."""
import asyncio
import os
import shutil
import time
import uuid

import pytest_like as expect
from e2b import AsyncSandbox, AsyncTemplate, Sandbox, Template
from e2b.exceptions import BuildException, SandboxException
from e2b.template.types import TemplateBuildStatus
from template_builds import built, call, context, inside, name


def case_an_image_and_a_command_become_a_template(world):
    template = Template().from_image(world.image).run_cmd("echo made > made; id -un; pwd")
    info, lines = built(world, template)
    assert uuid.UUID(info.build_id) and info.template_id.startswith("tp-")
    assert "user" in lines and "/home/user" in lines, lines
    assert any("RUN echo made" in line for line in lines), lines
    with Sandbox.create(info.name, timeout=120) as sandbox:
        assert sandbox.commands.run("cat /home/user/made /etc/greeting").stdout == "made\nfrom the image\n"
        assert sandbox.commands.run("id -un; pwd; echo $HOME").stdout == "user\n/home/user\n/home/user\n"
        assert sandbox.get_info().template_id == info.name
        sandbox.files.write("relative.txt", "x")
        assert sandbox.files.read("/home/user/relative.txt") == "x"
        assert sandbox.commands.run("id -u", user="root").stdout == "0\n"


def case_commands_run_as_user_or_root_without_more_rights(world):
    template = (Template().from_image(world.image)
                .run_cmd("id -u > /srv/who", user="root")
                .run_cmd(["id -u > /home/user/who", "grep CapEff /proc/self/status > /home/user/rights"])
                .set_user("root").run_cmd("id -u > /root/who").set_user("user"))
    info, _ = built(world, template)
    seen = inside(info, "cat /srv/who /home/user/who /home/user/rights")
    assert seen.splitlines()[0] == "0" and seen.splitlines()[1] == "1000", seen
    assert seen.split()[-1].strip("0") == "", f"a command of a build as `user` has capabilities: {seen}"


def case_variables_directory_and_user_hold_for_later_steps(world):
    template = (Template().from_image(world.image).set_envs({"ONE": "1", "TWO": "a b"})
                .set_workdir("/app").run_cmd("echo $ONE $TWO > here; pwd >> here").set_workdir("sub")
                .run_cmd("pwd > /app/sub/there"))
    info, _ = built(world, template)
    assert inside(info, "cat /app/here /app/sub/there; pwd") == "1 a b\n/app\n/app/sub\n/app/sub\n"


def case_files_are_copied_with_owner_and_mode(world):
    # The last file is new to the server.
    place = context(one="1", dir__a="a", dir__deep__b="b", tool=("#!/bin/sh\necho ran\n", 0o644), new=uuid.uuid4().hex)
    try:
        template = (Template(file_context_path=place).from_image(world.image)
                    .copy("one", "/srv/").copy("one", "two").copy("dir", "/srv/dir").copy("new", "/srv/")
                    .copy("tool", "/bin/tool", user="root", mode=0o755)
                    .copy_items([{"src": "one", "dest": "/srv/items/"}]))
        info, lines = built(world, template)
        assert any("Uploaded" in line for line in lines)
        seen = inside(info, "cat /srv/one two /srv/dir/a /srv/dir/deep/b /srv/items/one; tool; "
                            "ls -l /bin/tool /srv/dir/a /srv/one")
        assert seen.startswith("11ab1ran\n"), seen
        lines = {line.split()[-1]: line.split() for line in seen.splitlines()[1:]}
        assert lines["/bin/tool"][0] == "-rwxr-xr-x" and lines["/bin/tool"][2] == "root", lines
        assert lines["/srv/dir/a"][2] == "user" and lines["/srv/one"][2] == "user", lines
    finally:
        shutil.rmtree(place)


def case_patterns_and_links_are_copied(world):
    place = context(a__x_1="1", a__x_2="2", a__y="3")
    os.symlink("/etc/passwd", os.path.join(place, "a", "link"))
    try:
        template = (Template(file_context_path=place).from_image(world.image)
                    .copy("a/x_*", "/srv/matched/").copy("a", "/srv/all"))
        info, _ = built(world, template)
        seen = inside(info, "cd /srv; ls matched all; readlink all/link")
        assert seen == "all:\nlink\nx_1\nx_2\ny\n\nmatched:\nx_1\nx_2\n/etc/passwd\n", seen
    finally:
        shutil.rmtree(place)


def case_the_second_build_is_from_the_cache_and_uploads_nothing(world):
    place = context(data="1")
    try:
        make = lambda: (Template(file_context_path=place).from_image(world.image).copy("data", "/srv/")
                        .run_cmd("cat /proc/sys/kernel/random/uuid > /home/user/id"))
        first, _ = built(world, make())
        second, lines = built(world, make())
        assert any("already cached" in line for line in lines), lines
        assert inside(first, "cat id") == inside(second, "cat id")
        third, lines = built(world, make(), skip_cache=True)
        assert inside(third, "cat id") != inside(first, "cat id")
        with open(os.path.join(place, "data"), "w") as file:
            changed = uuid.uuid4().hex
            file.write(changed)
        fourth, lines = built(world, make())
        assert any("Uploaded" in line for line in lines), lines
        assert inside(fourth, "cat /srv/data") == changed
    finally:
        shutil.rmtree(place)


def case_skip_cache_holds_from_its_step_on(world):
    make = lambda template: template.run_cmd("cat /proc/sys/kernel/random/uuid > second")
    begin = lambda: Template().from_image(world.image).run_cmd("cat /proc/sys/kernel/random/uuid > first")
    one, _ = built(world, make(begin()))
    two, _ = built(world, make(begin().skip_cache()))
    first, second = inside(one, "cat first second").split(), inside(two, "cat first second").split()
    assert first[0] == second[0] and first[1] != second[1]


def case_a_template_begins_with_another(world):
    below, _ = built(world, Template().from_image(world.image).set_workdir("/app").run_cmd("echo 1 > one"), "below")
    info, _ = built(world, Template().from_template(below.name).run_cmd("cat one > two"))
    assert inside(info, "cat /app/one two; pwd") == "1\n1\n/app\n"
    again, _ = built(world, Template().from_template(below.template_id).run_cmd("echo 3 > three"))
    assert inside(again, "cat one three") == "1\n3\n"


def case_a_dockerfile_is_built(world):
    place = context(data="from the context")
    try:
        text = f"FROM {world.image}\nWORKDIR /app\nENV KIND=docker\nCOPY data .\nRUN echo $KIND > kind\nUSER root\n"
        info, _ = built(world, Template(file_context_path=place).from_dockerfile(text))
        seen = inside(info, "cat /app/data /app/kind; id -un")
        assert seen == "from the contextdocker\nroot\n", seen
    finally:
        shutil.rmtree(place)


def case_helpers_of_the_sdk_are_commands(world):
    template = (Template().from_image(world.image).make_dir("/home/user/d", mode=0o700)
                .run_cmd("echo x > d/a").rename("/home/user/d/a", "/home/user/d/b")
                .make_symlink("/home/user/d/b", "/home/user/l").run_cmd("touch gone").remove("/home/user/gone"))
    info, _ = built(world, template)
    assert inside(info, "cat l; ls") == "x\nd\nl\n"


def case_a_start_command_runs_when_the_sandbox_is_there(world):
    template = (Template().from_image(world.image)
                .set_start_cmd("sleep 1; echo up > /tmp/up; exec sleep 600", "test -e /tmp/up"))
    info, lines = built(world, template)
    assert any("start and ready command" in line for line in lines), lines
    with Sandbox.create(info.template_id, timeout=120) as sandbox:
        assert sandbox.commands.run("cat /tmp/up").stdout == "up\n"
        assert "sleep 600" in sandbox.commands.run("ps").stdout


def case_a_ready_command_needs_no_start_command(world):
    template = Template().from_image(world.image).run_cmd("touch there").set_ready_cmd("test -e /home/user/there")
    info, _ = built(world, template)
    assert inside(info, "ls") == "there\n"


def case_a_start_command_that_fails_fails_the_build(world):
    template = Template().from_image(world.image).set_start_cmd("exit 7", "test -e /tmp/never")
    error = expect.raises(BuildException, Template.build, template, name("bad"))
    assert "exit code 7" in str(error), error


def case_a_failing_step_is_told_with_its_reason_and_step(world):
    template = (Template().from_image(world.image).run_cmd("true").set_envs({"A": "1"})
                .run_cmd("echo the reason; exit 3").run_cmd("echo never"))
    lines, wanted = [], name("bad")
    error = expect.raises(BuildException, Template.build, template, wanted, on_build_logs=lines.append)
    assert "exit code 3" in str(error), error
    assert any(entry.message == "the reason" for entry in lines)
    assert any(entry.level == "error" and "exit code 3" in entry.message for entry in lines)
    assert not any("never" == entry.message for entry in lines)
    info = Template.build_in_background(template, wanted)
    status = wait_for(info)
    assert status.status == TemplateBuildStatus.ERROR
    assert status.reason.step == "3" and "exit code 3" in status.reason.message
    assert any("exit code 3" in entry.message for entry in status.reason.log_entries)
    expect.raises(Exception, Sandbox.create, wanted)


def wait_for(info, **options):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        status = Template.get_build_status(info, **options)
        if status.status not in (TemplateBuildStatus.BUILDING, TemplateBuildStatus.WAITING):
            return status
        time.sleep(0.1)
    raise AssertionError("the build does not end")


def case_a_build_in_the_background_has_a_status_and_pages_of_its_log(world):
    info = Template.build_in_background(Template().from_image(world.image).run_cmd("seq 1 250"), name("t"))
    assert wait_for(info).status == TemplateBuildStatus.READY
    seen, offset = [], 0
    while True:
        page = Template.get_build_status(info, logs_offset=offset).log_entries
        if not page:
            break
        assert len(page) <= 100
        seen += [entry.message for entry in page]
        offset += len(page)
    numbers = [line for line in seen if line.isdigit()]
    assert numbers == [str(number) for number in range(1, 251)], numbers


def case_levels_of_the_log_are_chosen(world):
    info, _ = built(world, Template().from_image(world.image).run_cmd("echo line"))
    target = f"/templates/{info.template_id}/builds/{info.build_id}/status"
    levels = lambda level: {entry["level"] for entry in call(world, "GET", f"{target}?level={level}")[1]["logEntries"]}
    assert levels("debug") == {"debug", "info"} and levels("info") == {"info"} and levels("error") == set()
    assert call(world, "GET", f"{target}?level=loud")[0] == 400


def case_tags_are_given_moved_listed_and_taken(world):
    wanted = name("tagged")
    one, _ = built(world, Template().from_image(world.image).run_cmd("echo 1 > v"), name=f"{wanted}:v1", tags=["stable"])
    two, _ = built(world, Template().from_image(world.image).run_cmd("echo 2 > v"), name=f"{wanted}:v2")
    assert one.template_id == two.template_id and one.build_id != two.build_id
    run = lambda template: Sandbox.create(template, timeout=60)
    for tag, value in (("v1", "1\n"), ("stable", "1\n"), ("v2", "2\n")):
        with run(f"{wanted}:{tag}") as sandbox:
            assert sandbox.commands.run("cat v").stdout == value
    info = Template.assign_tags(f"{wanted}:v2", ["stable", "next"])
    assert info.build_id == two.build_id and sorted(info.tags) == ["next", "stable"]
    found = {tag.tag: tag.build_id for tag in Template.get_tags(wanted)}
    assert found == {"v1": one.build_id, "v2": two.build_id, "stable": two.build_id, "next": two.build_id}, found
    Template.remove_tags(wanted, ["next", "v1"])
    assert {tag.tag for tag in Template.get_tags(one.template_id)} == {"v2", "stable"}
    expect.raises(Exception, run, f"{wanted}:v1")
    expect.raises(Exception, Template.remove_tags, wanted, "v1")
    expect.raises(Exception, Template.assign_tags, f"{wanted}:none", "x")


def case_a_name_exists_once_it_was_built_and_is_gone_when_deleted(world):
    wanted = name("e")
    assert Template.exists(wanted) is False
    info, _ = built(world, Template().from_image(world.image), name=wanted)
    assert Template.exists(wanted) is True and Template.exists("base") is True and Template.alias_exists(wanted) is True
    assert call(world, "DELETE", f"/templates/{info.template_id}")[0] == 204
    assert call(world, "DELETE", f"/templates/{info.template_id}")[0] == 404
    assert Template.exists(wanted) is False
    assert "was not found" in str(expect.raises(SandboxException, Sandbox.create, wanted))


def case_processors_and_memory_are_those_of_the_build(world):
    info, _ = built(world, Template().from_image(world.image), cpu_count=1, memory_mb=512)
    with Sandbox.create(info.template_id, timeout=60) as sandbox:
        found = sandbox.get_info()
        assert (found.cpu_count, found.memory_mb) == (1, 512), found


def case_templates_are_in_the_servers_own_api_too(world):
    info, _ = built(world, Template().from_image(world.image))
    import base64
    token = "pdk_" + base64.urlsafe_b64encode(bytes.fromhex(world.key[4:])).decode().rstrip("=")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    ask = lambda method, target, body=None: call(world, method, target, body, key=False, headers=headers)
    status, listed = ask("GET", "/v1/templates")
    assert status == 200 and info.template_id in [template.get("id") for template in listed["templates"]]
    request = {"name": name("v1"), "image": world.image, "steps": [{"kind": "run", "command": "echo v1 > v"}]}
    status, build = ask("POST", "/v1/template-builds", request)
    assert status == 202, build
    end = time.monotonic() + 60
    while build["state"] in ("waiting", "building") and time.monotonic() < end:
        time.sleep(0.1)
        build = ask("GET", f"/v1/template-builds/{build['id']}")[1]
    assert build["state"] == "ready", build
    assert ask("GET", f"/v1/template-builds/{build['id']}/log?limit=5")[1]["entries"]
    status, tagged = ask("PUT", f"/v1/templates/{build['name']}/tags/x", {"build": build["id"]})
    assert status == 200 and {tag["tag"] for tag in tagged["tags"]} == {"default", "x"}
    assert ask("DELETE", f"/v1/templates/{build['name']}/tags/x")[0] == 204
    with Sandbox.create(request["name"], timeout=60) as sandbox:
        assert sandbox.commands.run("cat v").stdout == "v1\n"
    assert ask("DELETE", f"/v1/templates/{build['name']}")[0] == 204
    assert ask("GET", f"/v1/templates/{build['name']}")[0] == 404


async def case_async_a_template_is_built_and_used(world):
    place = context(data="async")
    try:
        template = (AsyncTemplate(file_context_path=place).from_image(world.image).copy("data", "/srv/")
                    .run_cmd("cat /srv/data > out"))
        lines = []
        info = await AsyncTemplate.build(template, name("async"), on_build_logs=lines.append)
        assert any("COPY data /srv/" in entry.message for entry in lines)
        sandbox = await AsyncSandbox.create(info.name, timeout=120)
        assert (await sandbox.commands.run("cat out")).stdout == "async"
        await sandbox.kill()
    finally:
        shutil.rmtree(place)


async def case_async_status_tags_and_existence(world):
    wanted = name("async")
    assert await AsyncTemplate.exists(wanted) is False
    info = await AsyncTemplate.build_in_background(AsyncTemplate().from_image(world.image), wanted)
    end = time.monotonic() + 60
    while (status := await AsyncTemplate.get_build_status(info)).status not in (
            TemplateBuildStatus.READY, TemplateBuildStatus.ERROR):
        assert time.monotonic() < end
        await asyncio.sleep(0.1)
    assert status.status == TemplateBuildStatus.READY
    assert await AsyncTemplate.exists(wanted) is True
    await AsyncTemplate.assign_tags(f"{wanted}:default", "v1")
    assert {tag.tag for tag in await AsyncTemplate.get_tags(wanted)} == {"default", "v1"}
    await AsyncTemplate.remove_tags(wanted, "v1")
    assert {tag.tag for tag in await AsyncTemplate.get_tags(wanted)} == {"default"}


async def case_async_failures_have_the_sdks_exceptions(world):
    template = AsyncTemplate().from_image(world.image).run_cmd("exit 9")
    error = await expect.raises_later(BuildException, AsyncTemplate.build(template, name("bad")))
    assert "exit code 9" in str(error)
    template = AsyncTemplate().from_template(name("none"))
    await expect.raises_later(BuildException, AsyncTemplate.build(template, name("bad")))
    await expect.raises_later(SandboxException, AsyncSandbox.create(name("none")))


async def case_async_several_builds_at_once(world):
    templates = [AsyncTemplate().from_image(world.image).run_cmd(f"echo {number} > n") for number in range(4)]
    names = [name("many") for _ in templates]
    await asyncio.gather(*(AsyncTemplate.build(template, wanted) for template, wanted in zip(templates, names)))
    for number, wanted in enumerate(names):
        sandbox = await AsyncSandbox.create(wanted, timeout=60)
        assert (await sandbox.commands.run("cat n")).stdout == f"{number}\n"
        await sandbox.kill()
