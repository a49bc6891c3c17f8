"""What only the built templates have: a user who becomes root by the `sudo` that stands over their own, packages, and all languages."""
import base64
import io
import os
import shutil
import tarfile
import tempfile
import zipfile

import pytest_like as expect
from e2b import CommandExitException, Sandbox, Template
from e2b.exceptions import BuildException
from e2b_code_interpreter import Sandbox as Interpreter
from template_builds import built, call, inside, name

SUDO = "/usr/local/bin/sudo"
FIRST_BYTES = f"python3 -c \"print(open('{SUDO}', 'rb').read(4))\""
CONTROL = "Package: own\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@example.com>\\nDescription: own\\n"


def case_the_defaults_of_the_sdks_are_the_built_templates(world):
    for kind in (Sandbox, Interpreter):
        with kind.create(timeout=120) as sandbox:
            run = sandbox.commands.run
            assert run("id -un; pwd; echo $HOME; test ! -L /home/user").stdout == "user\n/home/user\n/home/user\n"
            assert "bookworm" in run("cat /etc/os-release").stdout
            for program in ("python3", "python", "pip", "node", "npm", "git", "curl"):
                run(f"{program} --version")
            # The image is the template's own, and no directory of the host's.
            assert run("dpkg --audit").stdout == ""


def case_sudo_stands_over_the_script_of_the_template(world):
    for kind in (Sandbox, Interpreter):
        with kind.create(timeout=120) as sandbox:
            run = sandbox.commands.run
            assert run("command -v sudo").stdout == f"{SUDO}\n"
            assert run(FIRST_BYTES).stdout == "b'\\x7fELF'\n"
            assert run("sudo -n whoami; sudo -E id -u; id -u").stdout == "root\n0\n1000\n"
            assert run("sudo sh -c 'exit 3' || echo $?").stdout == "3\n"
            refused = expect.raises(CommandExitException, run, f"sudo sh -c 'echo x > {SUDO}'")
            assert "Read-only" in refused.stderr or "busy" in refused.stderr, refused.stderr
            beside = os.path.join(os.path.dirname(SUDO), "own")
            assert run(f"sudo touch {beside} && stat -c %U {beside}").stdout == "root\n"


def case_without_the_right_the_script_of_the_template_says_so(world):
    wanted = {"template": "base", "become_root": False, "root_may_install": False, "ttl_seconds": 120}
    token = "pdk_" + base64.urlsafe_b64encode(bytes.fromhex(world.key[4:])).decode().rstrip("=")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    status, made = call(world, "POST", "/v1/sandboxes", wanted, key=False, headers=headers)
    assert status == 201, made
    with Sandbox.connect(made["id"]) as sandbox:
        run = sandbox.commands.run
        assert run(FIRST_BYTES).stdout == "b'#!/b'\n"
        refused = expect.raises(CommandExitException, run, "sudo id -u", user="user")
        assert refused.exit_code == 1 and "made without become_root" in refused.stderr, refused.stderr
        assert run("sudo id -u", user="root").stdout == "0\n"


def case_root_installs_a_package(world):
    with Sandbox.create(timeout=120) as sandbox:
        sandbox.commands.run(
            f"mkdir -p /tmp/p/DEBIAN /tmp/p/opt/own && echo installed > /tmp/p/opt/own/file && printf '{CONTROL}' > /tmp/p/DEBIAN/control"
            " && dpkg-deb --root-owner-group --build /tmp/p /tmp/own.deb")
        assert expect.raises(CommandExitException, sandbox.commands.run, "dpkg -i /tmp/own.deb").exit_code == 2
        sandbox.commands.run("sudo dpkg -i /tmp/own.deb")
        assert sandbox.commands.run("cat /opt/own/file; stat -c %U /opt/own/file").stdout == "installed\nroot\n"


def packages():
    """A package for pip and one for npm, neither of which asks for another."""
    place = tempfile.mkdtemp(prefix="paddock-e2b-packages-")
    with zipfile.ZipFile(os.path.join(place, "tiny-1.0-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("tiny.py", "VALUE = 'from the wheel'\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        lines = ["tiny.py", *(f"tiny-1.0.dist-info/{file}" for file in ("METADATA", "WHEEL", "RECORD"))]
        wheel.writestr("tiny-1.0.dist-info/RECORD", "".join(f"{line},,\n" for line in lines))
    with tarfile.open(os.path.join(place, "tiny.tgz"), "w:gz") as archive:
        for file, text in (("package.json", '{"name": "tiny", "version": "1.0.0", "bin": "run.js"}'),
                           ("run.js", "#!/usr/bin/env node\nconsole.log('from the archive')\n")):
            info = tarfile.TarInfo(f"package/{file}")
            info.size, info.mode = len(text), 0o755
            archive.addfile(info, io.BytesIO(text.encode()))
    return place


def case_templates_over_base_install_packages_by_the_helpers(world):
    place = packages()
    try:
        template = (Template(file_context_path=place).from_base_image().copy("tiny*", "/srv/")
                    .pip_install("/srv/tiny-1.0-py3-none-any.whl").npm_install("/srv/tiny.tgz", g=True)
                    .run_cmd("git init -q ~/source && cd ~/source && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m first")
                    .git_clone("file:///home/user/source", "/home/user/clone"))
        info, _ = built(world, template)
        said = inside(info, "python3 -c 'import tiny; print(tiny.VALUE)'; /home/user/.local/bin/tiny; git -C clone log --format=%s")
        assert said == "from the wheel\nfrom the archive\nfirst\n", said
    finally:
        shutil.rmtree(place)


def case_sudo_in_a_build_says_which_way_to_take(world):
    lines = []
    template = Template().from_base_image().run_cmd("sudo true")
    error = expect.raises(BuildException, Template.build, template, name("bad"), on_build_logs=lines.append)
    assert "exit code 1" in str(error), error
    assert any('run_cmd(COMMAND, user="root")' in entry.message for entry in lines), [entry.message for entry in lines]
    info, _ = built(world, Template().from_base_image().run_cmd("sudo sh -c 'id -u > /srv/who'", user="root"))
    assert inside(info, "cat /srv/who; sudo id -u") == "0\n0\n", "a template over base has the rights of base"


def case_every_language_of_the_code_interpreter_runs(world):
    with Interpreter.create(timeout=300) as sandbox:
        for language, code in (("python", "6 * 7"), ("javascript", "6 * 7"), ("typescript", "const six: number = 6; six * 7"),
                               ("r", "6 * 7"), ("java", "6 * 7"), ("bash", "echo $((6 * 7))")):
            execution = sandbox.run_code(code, language=language)
            assert execution.error is None, (language, execution.error)
            assert "42" in (execution.text or "".join(execution.logs.stdout)), (language, execution)
        libraries = "bs4, lxml, matplotlib, numpy, openpyxl, pandas, PIL, requests, scipy, seaborn, sklearn, sympy, yaml"
        assert sandbox.run_code(f"import {libraries}\n'all'").text == "all"
