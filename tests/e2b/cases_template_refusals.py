"""Builds of templates that are refused, logins to registries, and archives of strangers, with the Python SDK."""
import gzip
import io
import json
import subprocess
import tarfile
import uuid

import pytest_like as expect
from e2b import Sandbox, Template
from e2b.exceptions import BuildException, SandboxException
from registry import LOGINS
from template_builds import HASH, built, call, finished, inside, name, requested


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


def case_names_and_tags_that_are_none_are_refused(world):
    for wanted in ("", "A", "a b", "../x", "a/b", "tp-0000", "x:y:z", "x:", "x" * 65):
        status, answer = call(world, "POST", "/v3/templates", {"name": wanted})
        assert status == 400, (wanted, status, answer)
    assert call(world, "POST", "/v3/templates", {"name": "ok", "tags": ["a b"]})[0] == 400
    assert call(world, "POST", "/v3/templates", {"name": "ok", "minFreeDiskMb": 1 << 40})[0] == 400
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
