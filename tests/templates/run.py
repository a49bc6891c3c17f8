#!/usr/bin/env python3
"""Whether the templates that come with Paddock can be built.

    run.py                              every package that they name is in the archives that a build fetches from
    run.py --build PADDOCK [NAME...]    builds them, or those that are named, and runs the first script of each

Exit codes: 0 all is well; 1 something is not; 77 skipped, with a line `SKIP reason`.
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "kernels"))

import debian  # noqa: E402

SKIPPED = 77
BUILD_SECONDS = 3600
SCRIPT_SECONDS = 600
# `paddock script new` writes the first script of these.
STARTERS = {"bun": "script.bun.ts", "deno": "script.deno.ts", "go": "script.go", "ruby": "script.rb"}
# A name that no archive has.
NOBODYS = "paddock-no-such-package-0"
# The purpose of each of the others, as one line of a shell.
TRIES = {
    "minimal": "test -e /etc/ssl/certs/ca-certificates.crt && dpkg --audit",
    "base": "python3 --version && node --version && git --version && curl --version",
    "agent": "git --version && rg --version && jq --version && gcc --version && npm --version",
    "claude": "claude --version && node -e \"import('/usr/local/lib/node_modules/@anthropic-ai/claude-agent-sdk/sdk.mjs').then((sdk) => process.exit(sdk.query ? 0 : 1))\"",
    "codex": "codex --version && codex-itself --version",
    "opencode": "opencode --version",
    "code-interpreter": "python3 -c 'import numpy, pandas, matplotlib, sympy, requests, IPython' && node --version",
    "code-interpreter-v1": "python3 -c 'import numpy, pandas, matplotlib' && node --version && Rscript --version && java --version",
}


def build_files():
    for path in sorted(glob.glob(os.path.join(ROOT, "templates", "*.toml"))):
        with open(path, "rb") as file:
            yield os.path.basename(path).removesuffix(".toml"), tomllib.load(file)


def said(command):
    """The output of a command, nothing where it fails."""
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout if ended.returncode == 0 else ""


def bare(package):
    """`polars>=1.0`, `name=1.2`, `name/suite`, `@scope/name@1`: the name alone."""
    scoped = re.match(r"@[^/@]+/[^@]+", package)
    return scoped[0] if scoped else re.split(r"[\s\[<>=!~;@/]", package)[0]


class Apt:
    def __init__(self, suite):
        debian.check_machine()
        options = debian.apt_of_suite(suite, debian.default_cache())
        self.names = set(said(["apt-cache", *options, "pkgnames"]).split())

    def lacks(self, package):
        return package not in self.names


class Asked:
    """An index that is asked for each name by a program; `known` is a name that it has if it answers at all."""

    def __init__(self, command, known):
        self.command = command
        if self.lacks(known):
            raise debian.Skip(f"`{' '.join(command)}` reaches no index of packages")

    def lacks(self, package):
        return not said([*self.command[:1], *self.command[1:], package]).strip()


def archive(kind, suite):
    if kind == "apt":
        found = Apt(suite)
    elif kind == "npm":
        found = Asked(["npm", "view", "--json"], "npm")
    else:
        found = Asked([sys.executable, "-m", "pip", "index", "versions"], "pip")
    if not found.lacks(NOBODYS):
        raise ValueError(f"{kind} knows {NOBODYS}: it would know everything")
    return found


def check_names():
    """Counts (checked files, skipped archives)."""
    archives, passed, failed = {}, 0, 0
    for name, file in build_files():
        suite = str(file.get("base", "")).removeprefix("debian:")
        missing, whole = [], True
        for kind in ("apt", "npm", "pip"):
            wanted = [bare(package) for package in file.get(kind, [])]
            key = (kind, suite if kind == "apt" else "")
            if wanted and key not in archives:
                try:
                    archives[key] = archive(*key)
                except debian.Skip as reason:
                    print(f"SKIP templates: {' '.join(key).strip()}: {reason}", flush=True)
                    archives[key] = None
            if wanted and not archives[key]:
                whole = False
                continue
            missing += [f"{kind} {package}" for package in wanted if archives[key].lacks(package)]
        if missing:
            failed += 1
            print(f"CHECK templates/{name} FAIL the archives lack {', '.join(missing)}", flush=True)
        elif whole:
            passed += 1
            print(f"CHECK templates/{name} ok", flush=True)
    return passed, failed


def run(paddock, words, place, environment, patience):
    """Exit code and what was said on both streams; 124 if it took too long."""
    process = subprocess.Popen([paddock, *words], cwd=place, env=environment, text=True, errors="replace",
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=patience)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return 124, process.communicate()[0]


def build(paddock, name, place, environment):
    """None if it was built and does its work; else what went wrong."""
    code, output = run(paddock, ["template", "build", name], place, environment, BUILD_SECONDS)
    print(output[-2000:], flush=True)
    if code != 0:
        return f"the build exits with {code}"
    if name in STARTERS:
        code, output = run(paddock, ["script", "new", name], place, environment, SCRIPT_SECONDS)
        if code == 0:
            words = ["script", "run", "--template", name, STARTERS[name], "--arg", "name=Ada"]
            code, output = run(paddock, words, place, environment, SCRIPT_SECONDS)
        worked = code == 0 and "Hello, Ada!" in output
    else:
        words = ["run", "--template", name, "--", "sh", "-c", TRIES[name]]
        code, output = run(paddock, words, place, environment, SCRIPT_SECONDS)
        worked = code == 0
    print(output[-2000:], flush=True)
    return None if worked else f"its first script exits with {code}"


def build_all(paddock, names):
    if os.geteuid() != 0:
        raise debian.Skip("templates: only root builds them")
    known = [name for name, _ in build_files()]
    if unknown := set(names) - set(known):
        sys.exit(f"no template is called {' or '.join(sorted(unknown))}")
    place = tempfile.mkdtemp(prefix="paddock-templates-")
    state = os.path.join(place, "state")
    os.mkdir(state, mode=0o700)
    # A home of its own, so that no settings of the caller are in the way; indexes and proxies are the caller's.
    environment = {**os.environ, "HOME": place, "PADDOCK_STATE_DIR": state}
    for name in ("PIP_CONFIG_FILE", "NPM_CONFIG_USERCONFIG"):
        own = os.path.join(os.path.expanduser("~"), {"PIP_CONFIG_FILE": ".config/pip/pip.conf", "NPM_CONFIG_USERCONFIG": ".npmrc"}[name])
        if os.path.exists(own):
            environment.setdefault(name, own)
    failed = 0
    try:
        for name in names or known:
            wrong = build(paddock, name, place, environment)
            failed += bool(wrong)
            print(f"CHECK templates/{name} {'FAIL ' + wrong if wrong else 'ok'}", flush=True)
    finally:
        run(paddock, ["server", "stop"], place, environment, 60)
        mounts = [line.split()[4] for line in open("/proc/self/mountinfo") if line.split()[4].startswith(place)]
        for mount in sorted(mounts, reverse=True):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(place, ignore_errors=True)
    return len(names or known) - failed, failed


def main():
    build_them = sys.argv[1:2] == ["--build"]
    if len(sys.argv) > 1 and (not build_them or len(sys.argv) < 3):
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        if build_them:
            passed, failed = build_all(os.path.abspath(sys.argv[2]), sys.argv[3:])
        else:
            passed, failed = check_names()
    except debian.Skip as reason:
        print(f"SKIP templates: {reason}")
        sys.exit(SKIPPED)
    print(f"templates: {passed} passed, {failed} failed")
    sys.exit(1 if failed else 0 if passed else SKIPPED)


if __name__ == "__main__":
    main()
