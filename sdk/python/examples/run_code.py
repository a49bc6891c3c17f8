"""An agent's tool: a fresh sandbox for each call. The code of the guide, with only the import changed."""

from paddock import Sandbox


def run_code(code: str) -> str:
    """Execute model-written Python in a fresh sandbox, return its output."""
    # ttl_seconds is a backstop: even if cleanup is skipped, the sandbox self-destructs.
    with Sandbox.create(template="code-interpreter", ttl_seconds=600) as sb:
        result = sb.run_code(code, language="python")
        out = result.stdout
        if result.exit_code != 0:
            out += f"\n[exit {result.exit_code}] {result.stderr}"
        return out.strip() or "(no output — did you forget to print?)"


if __name__ == "__main__":
    print(run_code("print(sum(range(101)))"))  # -> 5050
