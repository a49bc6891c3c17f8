"""Templates with the Python SDK, both flavours: builds, files, tags, and everything that a build refuses."""
import asyncio
import gzip
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import uuid

import pytest_like as expect
from e2b import AsyncSandbox, AsyncTemplate, Sandbox, Template
from e2b.exceptions import BuildException, SandboxException
from e2b.template.types import TemplateBuildStatus
from registry import LOGINS

HASH = "0123456789abcdef" * 4


def call(world, method, target, body=None, key=None, headers=None):
    """Status and JSON of a request that no SDK would send."""
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    address = target if target.startswith("http") else world.url + target
    request = urllib.request.Request(address, data=data, method=method)
    if key is not False:
        request.add_header("X-API-KEY", key or world.key)
    for name, value in (headers or {}).items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text else None


def context(**files):
    """A directory with these files; `__` in a name stands for a slash, a value may be (content, mode)."""
    place = tempfile.mkdtemp(prefix="paddock-e2b-context-")
    for name, content in files.items():
        content, mode = content if isinstance(content, tuple) else (content, 0o644)
        path = os.path.join(place, name.replace("__", "/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(content)
        os.chmod(path, mode)
    return place


def name(word):
    return f"{word}-{uuid.uuid4().hex[:8]}"


def built(world, template, word="t", **options):
    """Builds it; the lines of its log."""
    lines = []
    info = Template.build(template, options.pop("name", None) or name(word), on_build_logs=lines.append, **options)
    return info, [entry.message for entry in lines]


def inside(info, command, **options):
    with Sandbox.create(info.template_id, timeout=120) as sandbox:
        return sandbox.commands.run(command, **options).stdout


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
    assert Template.exists(wanted) is True and Template.exists("base") is True
    assert call(world, "DELETE", f"/templates/{info.template_id}")[0] == 204
    assert call(world, "DELETE", f"/templates/{info.template_id}")[0] == 404
    assert Template.exists(wanted) is False
    assert "was not found" in str(expect.raises(SandboxException, Sandbox.create, wanted))


def case_processors_and_memory_are_those_of_the_build(world):
    info, _ = built(world, Template().from_image(world.image), cpu_count=1, memory_mb=512)
    with Sandbox.create(info.template_id, timeout=60) as sandbox:
        found = sandbox.get_info()
        assert (found.cpu_count, found.memory_mb) == (1, 512), found


def case_another_tenants_template_is_not_there(world):
    info, _ = built(world, Template().from_image(world.image))
    for target in (info.template_id, info.name):
        error = expect.raises(SandboxException, Sandbox.create, target, api_key=world.other_key)
        assert "was not found" in str(error), error
        assert call(world, "GET", f"/templates/{target}/tags", key=world.other_key)[0] == 404
        assert call(world, "GET", f"/templates/aliases/{target}", key=world.other_key)[0] == 404
        assert call(world, "DELETE", f"/templates/{target}", key=world.other_key)[0] == 404
        status = f"/templates/{target}/builds/{info.build_id}/status"
        assert call(world, "GET", status, key=world.other_key)[0] == 404
        assert call(world, "GET", f"/templates/{target}/files/{HASH}", key=world.other_key)[0] == 404
    assert Template.exists(info.name, api_key=world.other_key) is False
    template = Template().from_template(info.name)
    expect.raises(BuildException, Template.build, template, name("stolen"), api_key=world.other_key)
    # The same name is another template there.
    other = Template.build(Template().from_image(world.image).run_cmd("echo other > o"), info.name, api_key=world.other_key)
    assert other.template_id != info.template_id
    assert inside(info, "ls") == ""


def case_a_read_only_key_builds_nothing(world):
    template = Template().from_image(world.image)
    error = expect.raises(Exception, Template.build, template, name("t"), api_key=world.reading_key)
    assert "403" in str(error), error


def case_unknown_beginnings_are_refused(world):
    for template, words in (
        (Template().from_template(name("none")), "was not found"),
        (Template().from_image(world.server.registry.address + "/e2b/none:1"), "none"),
        (Template().from_image("/etc"), ""),
        (Template().from_image("./root"), ""),
        (Template().from_image("built://" + HASH), ""),
        (Template().from_image("registry.invalid/a/b:1"), "registry.invalid"),
        (Template().from_aws_registry(world.image, "id", "secret", "eu-1"), "aws ecr get-login-password"),
        (Template().from_image(world.image, username="a:b", password="c"), "username"),
        (Template().from_base_image(), "paddock template build base"),
    ):
        error = expect.raises(BuildException, Template.build, template, name("bad"))
        assert words in str(error), (words, str(error))


def case_an_image_behind_a_login_is_for_those_who_log_in(world):
    registry = world.server.registry
    image, password = registry.private_image, LOGINS["ann"]
    template = Template().from_image(image, username="ann", password=password).run_cmd("cat /etc/greeting > copy")
    info, lines = built(world, template, "private")
    assert inside(info, "cat copy") == "from the private image\n"
    # Another build asks the registry again, and finds the steps of the first.
    again, lines = built(world, template, "private")
    assert inside(again, "cat copy") == "from the private image\n" and not any(password in line for line in lines)
    google = Template().from_gcp_registry(image, service_account_json=json.loads(LOGINS["_json_key"]))
    info, _ = built(world, google, "google")
    assert inside(info, "cat /etc/greeting") == "from the private image\n"
    # The parts that this server has by now are given to no build without the login: neither by the name nor by digests.
    for key in (world.key, world.other_key):
        for other in (Template().from_image(image), Template().from_image(image, username="ann", password="wrong")):
            error = expect.raises(BuildException, Template.build, other, name("bad"), api_key=key)
            assert "does not let us read e2b/private" in str(error), error
        stolen = Template().from_image(f"{registry.address}/e2b/thief:1")
        error = expect.raises(BuildException, Template.build, stolen, name("stolen"), api_key=key)
        assert "has no" in str(error), error


def case_passwords_of_registries_are_kept_nowhere(world):
    image, password = world.server.registry.private_image, LOGINS["ann"]
    built(world, Template().from_image(image, username="ann", password=password).skip_cache().run_cmd("true"), "forgotten")
    # Files of other cases go while it looks.
    looked = lambda word: subprocess.run(["grep", "-rlsF", word, world.server.directory], capture_output=True, text=True).stdout
    assert looked(image) != "" and looked(password) == ""


def case_builds_that_were_refused_take_no_room(world):
    for _ in range(12):
        error = expect.raises(BuildException, Template.build, Template().from_template("none-of-these"), name("bad"))
        assert "was not found" in str(error), error


def requested(world):
    status, answer = call(world, "POST", "/v3/templates", {"name": name("raw")})
    assert status == 202, answer
    return answer


def case_names_and_tags_that_are_none_are_refused(world):
    for wanted in ("", "A", "a b", "../x", "a/b", "tp-0000", "x:y:z", "x:", "x" * 65):
        status, answer = call(world, "POST", "/v3/templates", {"name": wanted})
        assert status == 400, (wanted, status, answer)
    assert call(world, "POST", "/v3/templates", {"name": "ok", "tags": ["a b"]})[0] == 400
    assert call(world, "POST", "/v3/templates", {"name": "ok", "minFreeDiskMb": 5})[0] == 400
    assert call(world, "POST", "/v3/templates", {})[0] == 400


def case_a_wrong_hash_is_refused(world):
    answer = requested(world)
    for hash_ in ("x", "..%2F..%2Fetc", HASH.upper(), HASH[:-1]):
        assert call(world, "GET", f"/templates/{answer['templateID']}/files/{hash_}")[0] == 400, hash_
    target = f"/v2/templates/{answer['templateID']}/builds/{answer['buildID']}"
    step = {"type": "COPY", "args": ["a", "/a", "", ""], "filesHash": "../../x"}
    status, told = call(world, "POST", target, {"fromImage": world.image, "steps": [step]})
    assert status == 400 and "64 hexadecimal digits" in told["message"], told
    step["filesHash"] = "f" * 64
    assert call(world, "POST", target, {"fromImage": world.image, "steps": [step]})[0] == 202
    told = finished(world, answer)
    assert told["status"] == "error" and "were not uploaded" in told["reason"]["message"], told
    assert told["reason"]["step"] == "1"
    assert call(world, "POST", target, {"fromImage": world.image, "steps": []})[0] == 409


def finished(world, answer):
    target = f"/templates/{answer['templateID']}/builds/{answer['buildID']}/status"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        status, told = call(world, "GET", target)
        assert status == 200, told
        if told["status"] in ("ready", "error"):
            return told
        time.sleep(0.1)
    raise AssertionError("the build does not end")


def case_an_upload_wants_its_signed_address_and_has_a_bound(world):
    answer = requested(world)
    status, told = call(world, "GET", f"/templates/{answer['templateID']}/files/{HASH}")
    assert status == 201 and told["present"] is False and told["url"].startswith(world.url), told
    url = told["url"]
    assert call(world, "PUT", url, b"x", key=False)[0] == 200
    assert call(world, "GET", f"/templates/{answer['templateID']}/files/{HASH}")[1]["present"] is True
    grant = url.rsplit("/", 1)[1]
    parts = grant.split(".")
    altered = [grant[:-1] + ("0" if grant[-1] != "0" else "1"), grant.replace(parts[0], "e" * 64),
               grant.replace(parts[1], str(int(parts[1]) + 1)), "x", "a.b.c.d"]
    for bad in altered:
        assert call(world, "PUT", url.replace(grant, bad), b"x", key=False)[0] in (403, 404), bad
    status, told = call(world, "PUT", url, b"x", key=False, headers={"Content-Length": str(2 << 30)})
    assert status == 413 and "larger than 1024 MiB" in told["message"], (status, told)


def archive(*entries):
    """A gzipped tar of (name, type, content or target)."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for path, kind, content in entries:
            info = tarfile.TarInfo(path)
            info.type, info.mode = kind, 0o644
            if kind == tarfile.REGTYPE:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.linkname = content
                tar.addfile(info)
    return gzip.compress(data.getvalue())


def copied(world, data, source=".", to="/srv"):
    """The state of a build that copies this archive."""
    answer = requested(world)
    hash_ = uuid.uuid4().hex * 2
    url = call(world, "GET", f"/templates/{answer['templateID']}/files/{hash_}")[1]["url"]
    assert call(world, "PUT", url, data, key=False)[0] == 200
    step = {"type": "COPY", "args": [source, to, "", ""], "filesHash": hash_}
    check = {"type": "RUN", "args": ["cat /etc/passwd; ls -lR /srv", "root"]}
    target = f"/v2/templates/{answer['templateID']}/builds/{answer['buildID']}"
    status, told = call(world, "POST", target, {"fromImage": world.image, "steps": [step, check]})
    assert status == 202, told
    return finished(world, answer)


def case_hostile_archives_are_refused_or_stay_inside(world):
    for entries, words in (
        ([("../../outside", tarfile.REGTYPE, b"x")], "leads out of it"),
        ([("/etc/passwd", tarfile.REGTYPE, b"x")], "leads out of it"),
        ([("a/../../x", tarfile.REGTYPE, b"x")], "leads out of it"),
        ([("device", tarfile.CHRTYPE, "")], "is a device"),
        ([("pipe", tarfile.FIFOTYPE, "")], "a pipe"),
        ([("hard", tarfile.LNKTYPE, "/etc/passwd")], "a hard link"),
    ):
        told = copied(world, archive(*entries))
        assert told["status"] == "error" and words in told["reason"]["message"], (entries, told)
    # A link is a link inside; a file that would be written through it is not written there.
    told = copied(world, archive(("up", tarfile.SYMTYPE, "/etc"), ("up/passwd", tarfile.REGTYPE, b"hacked:x:0:0::/:/bin/sh")))
    assert told["status"] == "error" or not any("hacked" in entry["message"] for entry in told["logEntries"]), told
    told = copied(world, b"this is no archive at all, and nobody can read it as one")
    assert told["status"] == "error" and "damaged" in told["reason"]["message"], told
    bomb = gzip.compress(archive_of_size(6 << 30), 9)
    told = copied(world, bomb)
    assert told["status"] == "error" and "larger than" in told["reason"]["message"], told


def archive_of_size(size):
    """Only the header of a file that large."""
    info = tarfile.TarInfo("bomb")
    info.size = size
    return info.tobuf(format=tarfile.GNU_FORMAT) + b"\0" * 4096


def case_descriptions_that_are_wrong_are_refused_by_name(world):
    answer = requested(world)
    target = f"/v2/templates/{answer['templateID']}/builds/{answer['buildID']}"
    image = {"fromImage": world.image}
    for body, words in (
        ({"steps": []}, "either fromImage or fromTemplate"),
        ({**image, "fromTemplate": "x"}, "either fromImage or fromTemplate"),
        ({**image, "steps": [{"type": "EXPOSE", "args": ["80"]}]}, "EXPOSE"),
        ({**image, "steps": [{"type": "RUN", "args": []}]}, "the command is missing"),
        ({**image, "steps": [{"type": "RUN", "args": ["a", "../root"]}]}, "../root"),
        ({**image, "steps": [{"type": "ENV", "args": ["A=B", "1"]}]}, "step 1"),
        ({**image, "steps": [{"type": "COPY", "args": ["a", "/a", "", "7777"], "filesHash": HASH}]}, "mode"),
        ({**image, "steps": [{"type": "USER", "args": ["a b"]}]}, "step 1"),
        ({**image, "steps": [{"type": "RUN", "args": ["true"]}] * 501}, "more than 500"),
    ):
        status, told = call(world, "POST", target, body)
        assert status == 400 and words in told["message"], (body, status, told)
    other = requested(world)
    crossed = f"/v2/templates/{answer['templateID']}/builds/{other['buildID']}"
    assert call(world, "POST", crossed, {**image, "steps": []})[0] == 404
    assert call(world, "POST", f"/v2/templates/{answer['templateID']}/builds/x", {**image, "steps": []})[0] == 404
    assert call(world, "POST", "/v2/templates/none/builds/x", {**image, "steps": []})[0] == 404


def case_a_step_that_writes_without_end_fails_and_the_server_stays(world):
    template = Template().from_image(world.image).run_cmd("while :; do echo flood; done | head -c 2000000; exit 4")
    lines = []
    error = expect.raises(BuildException, Template.build, template, name("flood"), on_build_logs=lines.append)
    assert "exit code 4" in str(error), error
    assert len(lines) < 20_000 and any("the log is full" in entry.message for entry in lines)
    assert Sandbox.create(timeout=30).kill()


def case_a_build_reaches_no_private_address(world):
    port = world.url.rsplit(":", 1)[1]
    template = Template().from_image(world.image).run_cmd(
        f"unset http_proxy; wget -q -T 3 -O - http://127.0.0.1:{port}/health && echo reached; true", user="root")
    _, lines = built(world, template)
    assert "reached" not in lines, lines


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
