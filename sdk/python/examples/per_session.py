"""One sandbox for a whole conversation: what a call leaves behind, the next one finds."""

from typing import List

from paddock import Sandbox


def conversation(snippets: List[str]) -> List[str]:
    # Per-session: one sandbox for the whole conversation.
    sb = Sandbox.create(template="code-interpreter", ttl_seconds=1800)
    try:

        def run_code(code: str) -> str:
            r = sb.run_code(code, language="python")
            return (r.stdout + (r.stderr if r.exit_code else "")).strip()

        # ... run the agent loop here, all calls share `sb` ...
        return [run_code(snippet) for snippet in snippets]
    finally:
        sb.kill()  # always tear down; ttl_seconds is the backstop


if __name__ == "__main__":
    for answer in conversation(
        [
            "open('notes.txt', 'w').write('42')",
            "print(open('notes.txt').read())",
            "raise SystemExit('nothing more to do')",
        ]
    ):
        print(answer)
