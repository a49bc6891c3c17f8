"""Packages of others that code contexts are tested with, fetched once into target/. Without them a test says so."""

import os
import subprocess
import sys
import venv

# An S3 server whose conditional puts are real.
MOTO = "moto[s3,server]>=5.1,<6"

def fetch(root):
    """The variables that tell the end to end tests where they are."""
    kept = os.path.join(root, "target", "test-packages")
    node, python = os.path.join(kept, "node", "node_modules"), os.path.join(kept, "python")
    moto = os.path.join(kept, "moto")
    if not os.path.exists(os.path.join(node, "typescript", "package.json")):
        attempt("typescript", lambda: typescript(os.path.dirname(node)))
    if not os.path.exists(os.path.join(python, "IPython", "__init__.py")):
        attempt("IPython", lambda: ipython(os.path.join(kept, "venv"), python))
    if not os.path.exists(os.path.join(moto, "moto", "__init__.py")):
        attempt("moto", lambda: run(sys.executable, "-m", "pip", "install", "--quiet", "--target", moto, MOTO))
    return {"PADDOCK_TEST_NODE_MODULES": node, "PADDOCK_TEST_IPYTHON": python, "PADDOCK_TEST_MOTO": moto}


def attempt(name, action):
    try:
        action()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"test: {name} could not be fetched: {error}", file=sys.stderr)


def typescript(directory):
    os.makedirs(directory, exist_ok=True)
    run("npm", "install", "--no-audit", "--no-fund", "--prefix", directory, "typescript@5")


def ipython(environment, directory):
    """For the Python that sandboxes see, which need not be the one that runs this."""
    version = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = subprocess.run(["/usr/bin/python3", "-c", version], capture_output=True, text=True, check=True)
    venv.create(environment, with_pip=True)
    pip = [os.path.join(environment, "bin", "python"), "-m", "pip", "install", "--quiet"]
    other = ["--only-binary", ":all:", "--python-version", version.stdout.strip()]
    run(*pip, *other, "--target", directory, "ipython>=8,<9")
    run("/usr/bin/python3", "-m", "compileall", "-q", directory)


def run(*command):
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=600)
