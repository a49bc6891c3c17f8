"""Packages of others that code contexts are tested with, fetched once into target/. Without them a test says so."""

import glob
import os
import re
import subprocess
import sys
import tempfile
import venv

# An S3 server whose conditional puts are real.
MOTO = "moto[s3,server]>=5.1,<6"
# The agents as people install them: scripts of Windmill's documentation run them against a model of the tests' own.
AGENTS = ["@anthropic-ai/claude-agent-sdk", "@openai/codex", "opencode-ai"]
# Unmodified: what they ask of a server is what the E2B dialect answers.
E2B = ["e2b==2.63.0", "e2b-code-interpreter==2.11.5"]
E2B_NODE = ["e2b@2.51.0", "@e2b/code-interpreter@2.8.0"]
# A kernel with 9p, which the cloud kernel lacks.
KERNEL = "linux-image-amd64"

def fetch(root):
    """The variables that tell the end to end tests where they are."""
    kept = os.path.join(root, "target", "test-packages")
    node, python = os.path.join(kept, "npm", "node_modules"), os.path.join(kept, "python")
    agents = os.path.join(kept, "agents", "node_modules")
    moto = os.path.join(kept, "moto")
    if not os.path.exists(os.path.join(node, "typescript", "package.json")):
        attempt("typescript", lambda: npm(os.path.dirname(node), "typescript@7"))
    if not all(os.path.exists(os.path.join(agents, name, "package.json")) for name in AGENTS):
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
    found.update(PADDOCK_TEST_E2B=e2b, PADDOCK_TEST_E2B_NODE=e2b_node)
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


def ipython(environment, directory):
    """For the Python that sandboxes see, which need not be the one that runs this."""
    version = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = subprocess.run(["/usr/bin/python3", "-c", version], capture_output=True, text=True, check=True)
    venv.create(environment, with_pip=True)
    pip = [os.path.join(environment, "bin", "python"), "-m", "pip", "install", "--quiet"]
    other = ["--only-binary", ":all:", "--python-version", version.stdout.strip()]
    run(*pip, *other, "--target", directory, "ipython>=8,<9")
    run("/usr/bin/python3", "-m", "compileall", "-q", directory)


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


def run(*command):
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=600)
