"""Results as texts for a model: cut to a budget with head and tail, the rest kept to be read on."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import List, Optional, Tuple

from ._models import CodeResult, Execution, Result
from ._models_files import FileEntry
from ._tool_calls import BadCall

#: Of one answer, in characters: some four thousand tokens.
OUTPUT_BUDGET = 16_000
#: Long outputs that are kept to be read on, and of how many characters in all.
KEPT_OUTPUTS = 32
KEPT_CHARACTERS = 32 << 20
#: A file larger than this is not for reading whole.
LARGEST_FILE = 8 << 20
NO_OUTPUT = "[no output; it ended well. Print what you want to see.]"


class Outputs:
    """The last long outputs, by name."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: "OrderedDict[str, str]" = OrderedDict()
        self._made = 0

    def shown(self, text: str) -> str:
        """The text, or its head and its tail and how to read what is between them."""
        if len(text) <= self._budget:
            return text
        self._made += 1
        name = f"output-{self._made}"
        self._keep(name, text)
        head = _back_to_line(text, self._budget * 3 // 5)
        tail = _on_to_line(text, len(text) - (self._budget - head))
        left_out = tail - head
        note = f"[{left_out} characters left out; read_output(output={name!r}, offset={head}) reads on from here]"
        return f"{text[:head]}\n{note}\n{text[tail:]}"

    def piece(self, name: str, offset: int) -> str:
        """What stands at `offset` of a long output, as much as fits."""
        text = self._kept.get(name)
        if text is None:
            raise BadCall(f"{name} is not kept, or not any more; run the command again, into a file if it is long")
        if offset >= len(text):
            raise BadCall(f"{name} has {len(text)} characters; {offset} is behind its end")
        end = min(len(text), offset + self._budget)
        rest = (
            f"\n[read_output(output={name!r}, offset={end}) reads on]" if end < len(text) else "\n[end of the output]"
        )
        return text[offset:end] + rest

    def _keep(self, name: str, text: str) -> None:
        self._kept[name] = text
        while len(self._kept) > 1 and (
            len(self._kept) > KEPT_OUTPUTS or sum(map(len, self._kept.values())) > KEPT_CHARACTERS
        ):
            self._kept.popitem(last=False)


def _back_to_line(text: str, place: int) -> int:
    """The end of a line at most a little before `place`; else the place itself."""
    found = text.rfind("\n", max(0, place - 400), place)
    return place if found < 0 else found + 1


def _on_to_line(text: str, place: int) -> int:
    found = text.find("\n", place, place + 400)
    return place if found < 0 else found + 1


def of_result(result: Result, outputs: Outputs) -> Tuple[str, bool]:
    """What a command printed and how it ended; whether it failed."""
    parts: List[str] = []
    if result.stdout:
        parts.append(outputs.shown(_with_missing(result.stdout, result.stdout_missing_bytes)))
    if result.stderr:
        parts.append("[stderr]\n" + outputs.shown(_with_missing(result.stderr, result.stderr_missing_bytes)))
    ended = _how_it_ended(result)
    if ended:
        parts.append(ended)
    elif not parts:
        parts.append(NO_OUTPUT)
    return "\n".join(part.rstrip("\n") for part in parts), not result.ok


def of_execution(execution: Execution, outputs: Outputs) -> Tuple[str, bool]:
    """The same of code that ran in a context: also what it gave besides what it printed."""
    text, failed = of_result(execution, outputs)
    shown = [outputs.shown(_value(result)) for result in execution.results]
    if shown and text == NO_OUTPUT:
        text = ""
    parts = [part for part in (text, *shown) if part]
    if execution.findings:
        found = "\n".join(str(finding) for finding in execution.findings[:10])
        parts.append(outputs.shown(f"[the policy objects to parts of this code]\n{found}"))
    if execution.context_restarted is not None:
        parts.insert(0, f"[the interpreter had ended ({execution.context_restarted}): its variables are gone]")
    return "\n".join(part.rstrip("\n") for part in parts), failed


def _value(result: CodeResult) -> str:
    """What a model can read of it."""
    others = [name for name in ("png", "jpeg", "svg", "pdf") if getattr(result, name) is not None]
    pictures = f"[and a picture: {', '.join(others)}]" if others else ""
    text = result.text or result.markdown or result.latex or result.html or ""
    return "\n".join(part for part in (text, pictures) if part)


def _with_missing(text: str, missing: int) -> str:
    return f"{text}\n[{missing} bytes in the middle of this were too many to keep]" if missing else text


def _how_it_ended(result: Result) -> Optional[str]:
    if result.ok:
        return None
    if result.timed_out:
        return "[stopped: the time limit was reached]"
    if result.cause.kind == "exited":
        return f"[exit code {result.exit_code}]"
    if result.cause.kind == "out_of_memory":
        return "[killed: out of memory]"
    return f"[exit code {result.exit_code}: {result.cause}]"


def of_file(content: bytes, path: str, start_line: int, lines: Optional[int], budget: int) -> str:
    """A piece of a text file, as many whole lines as fit."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadCall(f"{path} is no text: its byte {error.start} is not UTF-8 ({len(content)} bytes)") from None
    if "\0" in text:
        raise BadCall(f"{path} is no text: it has NUL bytes ({len(content)} bytes)")
    # A newline and nothing else ends a line, as for sed and for compilers.
    all_lines = list(io.StringIO(text, newline="\n"))
    if not all_lines:
        return f"[{path} is empty]"
    if start_line > len(all_lines):
        raise BadCall(f"{path} has {len(all_lines)} lines; line {start_line} is behind its end")
    wanted = all_lines[start_line - 1 : None if lines is None else start_line - 1 + lines]
    taken: List[str] = []
    size = 0
    for line in wanted:
        size += len(line)
        if size > budget and taken:
            break
        taken.append(line[:budget])
    last = start_line - 1 + len(taken)
    notes = []
    if len(taken[-1]) < len(wanted[len(taken) - 1]):
        notes.append(f"[line {last} has {len(wanted[len(taken) - 1])} characters and is cut]")
    if last < len(all_lines):
        notes.append(f"[lines {start_line} to {last} of {len(all_lines)}; read on with start_line={last + 1}]")
    if not notes:
        return "".join(taken)
    return "\n".join(["".join(taken).rstrip("\n"), *notes])


def edited(content: str, path: str, old: str, new: str, replace_all: bool) -> Tuple[str, int]:
    """The file with the piece replaced, and how often."""
    if not old:
        raise BadCall("old_text is empty; to write a whole file use write_file")
    if old == new:
        raise BadCall("old_text and new_text are the same")
    count = content.count(old)
    if count == 0:
        raise BadCall(f"old_text does not stand in {path}{_nearly(content, old)}")
    if count > 1 and not replace_all:
        places = ", ".join(str(line) for line in _lines_of(content, old)[:10])
        raise BadCall(
            f"old_text stands {count} times in {path} (lines {places}): give more around it, or set replace_all"
        )
    return content.replace(old, new), count


def _nearly(content: str, old: str) -> str:
    """Where it would stand if white space did not count: the commonest mistake."""
    wanted = [line.strip() for line in old.strip("\n").split("\n")]
    have = [line.strip() for line in content.split("\n")]
    for place in range(len(have) - len(wanted) + 1):
        if have[place : place + len(wanted)] == wanted:
            return f"; it nearly does at line {place + 1}, with other white space: read those lines again"
    return "; read the file again, it may have changed"


def _lines_of(content: str, piece: str) -> List[int]:
    found, at = [], content.find(piece)
    while at >= 0:
        found.append(content.count("\n", 0, at) + 1)
        at = content.find(piece, at + len(piece))
    return found


def of_entries(entries: List[FileEntry], path: str, more: bool) -> str:
    if not entries:
        return f"[{path} is empty]"
    lines = [_entry(entry) for entry in entries]
    if more:
        lines.append(f"[the first {len(entries)} entries; there are more: list a directory further down]")
    return "\n".join(lines)


def _entry(entry: FileEntry) -> str:
    link = f" -> {entry.target}" if entry.target else ""
    size = str(entry.size) if entry.kind == "file" else ""
    path = entry.path[2:] if entry.path.startswith("./") else entry.path
    return f"{entry.kind:<9} {size:>10} {path}{link}"
