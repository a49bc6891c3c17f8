"""The ready commands that the SDK makes, each with something to wait for, and the logger that it brings."""
import contextlib
import io
import threading

import pytest_like as expect
from e2b import Sandbox, Template, default_build_logger, wait_for_file, wait_for_port, wait_for_process, wait_for_timeout, wait_for_url
from e2b.exceptions import BuildException
from template_builds import built, name

# The small image has a busybox, and neither `ss`, `curl` nor `pgrep`: these say the same by what it has.
PROGRAMS = {
    # ss -Htuln sport = :PORT
    "ss": r"""netstat -tuln | grep -E ":${4#:} +" """,
    # curl -s -o /dev/null -w "%{http_code}" URL; busybox knows no `no_proxy`, and would ask the gate.
    "curl": r"""for url; do :; done; wget -Y off -S -O /dev/null "$url" 2>&1 | sed -n "s/^ *HTTP[^ ]* \([0-9]*\).*/\1/p" """,
    "pgrep": r"""ps -o comm | grep -x "$1" """,
}


def with_programs(world):
    template = Template().from_image(world.image)
    for program, line in PROGRAMS.items():
        template = template.run_cmd(f"printf '%s\\n' '#!/bin/sh' '{line}' > /bin/{program} && chmod 755 /bin/{program}", user="root")
    return template


def case_a_sandbox_is_there_when_its_port_is(world):
    info, _ = built(world, with_programs(world).set_start_cmd("sleep 1; exec httpd -f -p 8017", wait_for_port(8017)))
    with Sandbox.create(info.template_id, timeout=120) as sandbox:
        assert ":8017" in sandbox.commands.run("netstat -tln").stdout


def case_a_sandbox_is_there_when_its_url_is(world):
    start = "sleep 1; mkdir -p /tmp/www; echo well > /tmp/www/health; exec httpd -f -p 8018 -h /tmp/www"
    info, _ = built(world, with_programs(world).set_start_cmd(start, wait_for_url("http://localhost:8018/health")))
    with Sandbox.create(info.template_id, timeout=120) as sandbox:
        assert sandbox.commands.run("wget -Y off -q -O - http://localhost:8018/health").stdout == "well\n"
    info, _ = built(world, with_programs(world).set_start_cmd("exec httpd -f -p 8018 -h /srv", wait_for_url("http://localhost:8018/none", 404)))
    with Sandbox.create(info.template_id, timeout=120) as sandbox:
        assert ":8018" in sandbox.commands.run("netstat -tln").stdout


def case_a_sandbox_is_there_when_its_process_is(world):
    template = with_programs(world).run_cmd("cp /bin/busybox /srv/httpd; chmod 755 /srv/httpd", user="root")
    info, _ = built(world, template.set_start_cmd("sleep 1; exec /srv/httpd -f -p 8019", wait_for_process("httpd")))
    with Sandbox.create(info.template_id, timeout=120) as sandbox:
        assert "/srv/httpd" in sandbox.commands.run("ps -o args").stdout


def case_a_sandbox_is_there_when_its_file_is(world):
    start = "sleep 1; echo up > '/tmp/is up'; exec sleep 600"
    info, _ = built(world, with_programs(world).set_start_cmd(start, wait_for_file("/tmp/is up")))
    with Sandbox.create(info.template_id, timeout=120) as sandbox:
        assert sandbox.commands.run("cat '/tmp/is up'").stdout == "up\n"


def case_a_time_is_waited_for_in_the_build(world):
    """It says nothing of a sandbox, so that each is given out without it."""
    info, lines = built(world, with_programs(world).set_start_cmd("echo up > /tmp/up; exec sleep 600", wait_for_timeout(1000)))
    assert any("start and ready command" in line for line in lines), lines
    with Sandbox.create(info.template_id, timeout=120) as sandbox:
        assert expect.until(lambda: sandbox.commands.run("cat /tmp/up; true").stdout, lambda text: text == "up\n") == "up\n"


def case_the_logger_of_the_sdk_shows_a_build(world):
    template = Template().from_image(world.image).run_cmd("echo a word of the step").run_cmd("echo a second; exit 3")
    for level, expected in (("debug", True), ("info", True), ("error", False)):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            expect.raises(BuildException, Template.build, template, name("logged"), on_build_logs=default_build_logger(min_level=level))
        shown = said.getvalue()
        assert ("a word of the step" in shown) is expected, (level, shown)
        assert "exit code 3" in shown and "ERROR" in shown, (level, shown)
    assert threading.active_count() < 100
