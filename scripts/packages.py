"""Packages of others that code contexts are tested with, fetched once into target/. Without them a test says so.

    python3 scripts/packages.py integrations

fetches only those of the agent frameworks, and fails if one cannot be had.
"""

import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import venv

# An S3 server whose conditional puts are real.
MOTO = "moto[s3,server]>=5.1,<6"
# The agents as people install them: scripts of Windmill's documentation run them against a model of the tests' own.
# The versions are those of docs/guides/integrations.md.
AGENTS = ["@anthropic-ai/claude-agent-sdk@0.3.327", "@openai/codex@0.169.0", "opencode-ai@1.18.33"]
# Unmodified: what they ask of a server is what the E2B dialect answers.
E2B = ["e2b==2.63.0", "e2b-code-interpreter==2.11.5"]
E2B_NODE = ["e2b@2.51.0", "@e2b/code-interpreter@2.8.0"]
# Each in a directory of its own, because they do not agree: OpenAI's wants an older SDK.
E2B_FRAMEWORKS = {
    "smolagents": ["smolagents[e2b]==1.26.0", *E2B],
    "langchain": ["langchain-e2b==0.0.6", E2B[0]],
    "openai-agents": ["openai-agents[e2b]==0.24.0"],
}
# A gigabyte with what they depend on: for a target of its own.
SLOW_E2B_FRAMEWORKS = {"crewai": ["crewai-tools[e2b]==1.15.30"]}
# The frameworks whose agents use sandboxes through sdk/integrations, by the files of its directory `requirements`. The second list takes
# minutes more to install, and has a target of its own.
INTEGRATIONS, SLOW_INTEGRATIONS = ["agents"], ["harbor"]
# The TypeScript SDK runs in them too: the newest Nodes beside Debian's, and the runtime of Cloudflare Workers. Apart from its lock file, because
# each is made for one kind of processor. Nodes by the packages of their executables, as `node` itself would run a script to get them.
NODE = f"npm:node-linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}"
JAVASCRIPT_RUNTIMES = {
    "bun": "bun@1.4.4", "deno": "deno@2.9.6", "node24": f"node24@{NODE}@24.21.0", "node26": f"node26@{NODE}@26.10.0",
    "workerd": "workerd@1.20261117.1",
}
# A kernel with 9p, which the cloud kernel lacks.
KERNEL = "linux-image-amd64"

def fetch(root, slow=False):
    """The variables that tell the end to end tests where they are; with `slow` also of what only a target of its own needs."""
    kept = os.path.join(root, "target", "test-packages")
    node, python = os.path.join(kept, "npm", "node_modules"), os.path.join(kept, "python")
    agents = os.path.join(kept, "agents", "node_modules")
    moto = os.path.join(kept, "moto")
    if not os.path.exists(os.path.join(node, "typescript", "package.json")):
        attempt("typescript", lambda: npm(os.path.dirname(node), "typescript@7"))
    if not all(installed(agents, wanted) for wanted in AGENTS):
        attempt("agents", lambda: npm(os.path.dirname(agents), *AGENTS))
    if not os.path.exists(os.path.join(python, "IPython", "__init__.py")):
        attempt("IPython", lambda: ipython(os.path.join(kept, "venv"), python))
    if not os.path.exists(os.path.join(moto, "moto", "__init__.py")):
        attempt("moto", lambda: run(sys.executable, "-m", "pip", "install", "--quiet", "--target", moto, MOTO))
    found = {"PADDOCK_TEST_NODE_MODULES": node, "PADDOCK_TEST_IPYTHON": python, "PADDOCK_TEST_MOTO": moto}
    found["PADDOCK_TEST_AGENTS"] = agents
    e2b, e2b_node = os.path.join(kept, "e2b"), os.path.join(kept, "e2b-node", "node_modules")
    if not os.path.exists(os.path.join(e2b, "e2b_code_interpreter", "__init__.py")):
        attempt("e2b", lambda: run(sys.executable, "-m", "pip", "install", "--quiet", "--target", e2b, *E2B))
    if not os.path.exists(os.path.join(e2b_node, "@e2b", "code-interpreter", "package.json")):
        attempt("e2b for Node", lambda: npm(os.path.dirname(e2b_node), *E2B_NODE))
    kept_frameworks = os.path.join(kept, "e2b-frameworks")
    for name, wanted in {**E2B_FRAMEWORKS, **(SLOW_E2B_FRAMEWORKS if slow else {})}.items():
        place = os.path.join(kept_frameworks, name)
        if not os.path.exists(os.path.join(place, "e2b", "__init__.py")):
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", place, *wanted]
            attempt(name, lambda: run(*command, timeout=3600 if slow else 600))
    found.update(PADDOCK_TEST_E2B=e2b, PADDOCK_TEST_E2B_NODE=e2b_node, PADDOCK_TEST_E2B_FRAMEWORKS=kept_frameworks)
    sdk = os.path.join(kept, "typescript-sdk")
    if not pinned(os.path.join(root, "sdk", "typescript"), sdk):
        attempt("the packages of the TypeScript SDK", lambda: npm_ci(os.path.join(root, "sdk", "typescript"), sdk))
    found["PADDOCK_TEST_TYPESCRIPT_SDK"] = os.path.join(sdk, "node_modules")
    dashboard = os.path.join(kept, "dashboard")
    if not pinned(os.path.join(root, "web"), dashboard):
        attempt("the packages of the dashboard", lambda: npm_ci(os.path.join(root, "web"), dashboard))
    found["PADDOCK_TEST_DASHBOARD"] = os.path.join(dashboard, "node_modules")
    found["PADDOCK_TEST_INTEGRATIONS"] = integrations = os.path.join(kept, "integrations")
    frameworks(root, integrations, INTEGRATIONS + (SLOW_INTEGRATIONS if slow else []))
    runtimes = os.path.join(kept, "javascript-runtimes", "node_modules")
    if not all(os.path.exists(os.path.join(runtimes, name, "package.json")) for name in JAVASCRIPT_RUNTIMES):
        attempt("Bun, Deno, Nodes and workerd", lambda: npm(os.path.dirname(runtimes), "--ignore-scripts", *JAVASCRIPT_RUNTIMES.values()))
    found["PADDOCK_TEST_JAVASCRIPT_RUNTIMES"] = runtimes
    if not kernels(os.path.join(kept, "kernel")):
        attempt("a kernel for machines", lambda: kernel(os.path.join(kept, "kernel")))
    for image in kernels(os.path.join(kept, "kernel")):
        found["PADDOCK_TEST_KERNEL"] = image
    return found


def attempt(name, action):
    try:
        action()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"test: {name} could not be fetched: {error}", file=sys.stderr)


def npm(directory, *names):
    os.makedirs(directory, exist_ok=True)
    run("npm", "install", "--no-audit", "--no-fund", "--prefix", directory, *names)


def installed(modules, wanted):
    """True if a directory of node_modules has `NAME@VERSION`."""
    name, _, version = wanted.rpartition("@")
    try:
        with open(os.path.join(modules, name, "package.json")) as file:
            return json.load(file)["version"] == version
    except OSError:
        return False


def pinned(source, directory):
    """True if a directory has the packages of this lock file: the mark is written when all of them are there."""
    try:
        with open(os.path.join(source, "package-lock.json"), "rb") as wanted, open(os.path.join(directory, "installed-lock.json"), "rb") as have:
            return wanted.read() == have.read()
    except OSError:
        return False


def npm_ci(source, directory):
    os.makedirs(directory, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy2(os.path.join(source, name), os.path.join(directory, name))
    # Scripts of packages are code of strangers, and nothing here needs them. Behind a link npm would miss the package itself.
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", os.path.realpath(directory))
    shutil.copy2(os.path.join(source, "package-lock.json"), os.path.join(directory, "installed-lock.json"))


def ipython(environment, directory):
    """For the Python that sandboxes see, which need not be the one that runs this."""
    version = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = subprocess.run(["/usr/bin/python3", "-c", version], capture_output=True, text=True, check=True)
    venv.create(environment, with_pip=True)
    pip = [os.path.join(environment, "bin", "python"), "-m", "pip", "install", "--quiet"]
    other = ["--only-binary", ":all:", "--python-version", version.stdout.strip()]
    run(*pip, *other, "--target", directory, "ipython>=8,<9")
    run("/usr/bin/python3", "-m", "compileall", "-q", directory)


def frameworks(root, directory, names):
    """One environment for all frameworks that agree on what they need, and one for each that does not."""
    requirements = os.path.join(root, "sdk", "integrations", "requirements")
    for name in names:
        place, wanted = os.path.join(directory, name), os.path.join(requirements, f"{name}.txt")
        if not made_from(place, wanted):
            attempt(name, lambda place=place, wanted=wanted: environment(place, wanted))
    beside = {"suite": "deepagents for its suite", "rewards": "SandboxFusion's client and verl", "loops": "mini-swe-agent"}
    for name, what in beside.items():
        place, wanted = os.path.join(directory, name), os.path.join(requirements, f"{name}.txt")
        if not made_from(place, wanted):
            attempt(what, lambda place=place, wanted=wanted: alone(place, wanted))


def made_from(place, wanted):
    """True if all of a directory was made from this very list."""
    try:
        with open(os.path.join(place, "complete")) as mark:
            return mark.read() == listed(wanted)
    except OSError:
        return False


def listed(wanted):
    """A list of packages, with those that are installed without what they depend on."""
    texts = []
    for path in (wanted, without_dependencies(wanted)):
        if os.path.exists(path):
            with open(path) as file:
                texts.append(file.read())
    return "".join(texts)


def without_dependencies(wanted):
    return wanted.replace(".txt", "-alone.txt")


def complete(place, wanted):
    with open(os.path.join(place, "complete"), "w") as mark:
        mark.write(listed(wanted))


def environment(place, wanted):
    shutil.rmtree(place, ignore_errors=True)
    run(recent_python(), "-m", "venv", place)
    pip = [os.path.join(place, "bin", "python"), "-m", "pip", "install", "--quiet"]
    # All frameworks at once take more than ten minutes where the build has the processors.
    run(*pip, "-r", wanted, timeout=3600)
    if os.path.exists(without_dependencies(wanted)):
        run(*pip, "--no-deps", "-r", without_dependencies(wanted))
    complete(place, wanted)


def alone(place, wanted):
    shutil.rmtree(place, ignore_errors=True)
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place, "-r", wanted)
    complete(place, wanted)


def recent_python():
    """The newest of several frameworks want 3.12. A name on the path may be one of pyenv's that leads nowhere, so that each is tried."""
    kept = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.1[23].*/bin/python")))
    for name in ("python3.12", *kept, "python3.13"):
        if shutil.which(name) and subprocess.run([name, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return name
    return sys.executable


def kernels(directory):
    return sorted(glob.glob(os.path.join(directory, "boot", "vmlinuz-*")))


def kernel(directory):
    """Debian's, unpacked and not installed: machines boot it, and nothing else does."""
    asked = ["apt-cache", "depends", "--important", KERNEL]
    asked = subprocess.run(asked, capture_output=True, text=True, check=True)
    package = re.search(r"Depends: (linux-image-\d\S*)", asked.stdout)
    if not package:
        raise OSError(f"apt knows no {KERNEL}")
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(directory)) as place:
        # The sandbox user of apt cannot write to a directory of root's.
        download = ["apt-get", "-o", "APT::Sandbox::User=root", "download", package[1]]
        subprocess.run(download, cwd=place, stdout=subprocess.DEVNULL, check=True, timeout=600)
        files = os.path.join(place, "files")
        run("dpkg", "-x", *glob.glob(os.path.join(place, "*.deb")), files)
        os.rename(files, directory)


def run(*command, timeout=600):
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=timeout)


def main():
    if sys.argv[1:] != ["integrations"]:
        sys.exit(f"packages: `integrations` can be fetched alone, and nothing else: {' '.join(sys.argv[1:]) or 'nothing was named'}")
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    place = os.path.join(root, "target", "test-packages", "integrations")
    frameworks(root, place, INTEGRATIONS)
    missing = [name for name in [*INTEGRATIONS, "suite", "rewards", "loops"] if not os.path.exists(os.path.join(place, name, "complete"))]
    if missing:
        sys.exit(f"packages: {' and '.join(missing)} could not be fetched into {place}")


if __name__ == "__main__":
    main()
