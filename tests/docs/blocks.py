"""Reads the code blocks of a Markdown file, in order, with the directives that stand before them.

A directive is an HTML comment, which no reader sees:

    <!-- test: hidden
    shell lines that run before the next block; they must succeed, and their output is not compared
    -->
    <!-- test: file NAME -->        the next block is the content of the file NAME
    <!-- test: needs COMPONENT -->  the next block is skipped where the host lacks the component (gvisor, microvm)
    <!-- test: skip REASON -->      the next block is not run; the reason is printed
"""

import re
from dataclasses import dataclass, field

DIRECTIVE = re.compile(r"<!-- test: (hidden|file|needs|skip)\b(.*?)-->", re.S)


@dataclass
class Block:
    line: int
    kind: str  # console, python, file, text, data
    text: str
    hidden: list = field(default_factory=list)
    name: str = ""
    needs: str = ""
    skip: str = ""


def read(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    pending, blocks, number = [], [], 0
    while number < len(lines):
        line = lines[number]
        if line.startswith("<!-- test:"):
            end = next(index for index in range(number, len(lines)) if "-->" in lines[index])
            comment = "\n".join(lines[number : end + 1])
            found = DIRECTIVE.match(comment)
            if not found:
                raise ValueError(f"{path}:{number + 1}: not a directive: {comment.splitlines()[0]}")
            pending.append((found[1], found[2].strip()))
            number = end + 1
        elif line.startswith("```"):
            end = next(index for index in range(number + 1, len(lines)) if lines[index].startswith("```"))
            blocks.append(finish(Block(number + 1, fenced_kind(line[3:]), "\n".join(lines[number + 1 : end])), pending))
            pending, number = [], end + 1
        elif line.startswith("    ") and number > 0 and not lines[number - 1].strip() and not in_list(lines, number):
            end = number
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            text = "\n".join(one[4:] for one in lines[number:end]).rstrip("\n")
            kind = "console" if text.startswith("$ ") or "\n$ " in text else "text"
            blocks.append(finish(Block(number + 1, kind, text), pending))
            pending, number = [], end
        else:
            number += 1
    if pending:
        blocks.append(finish(Block(len(lines), "text", ""), pending))
    return blocks


def fenced_kind(language):
    return {"python": "python", "console": "console"}.get(language.strip(), "data")


def in_list(lines, number):
    """An indented line right below a list item belongs to the item."""
    above = next((lines[index] for index in range(number - 1, -1, -1) if lines[index].strip()), "")
    return above.startswith(("- ", "* ", "  "))


def finish(block, pending):
    for verb, rest in pending:
        if verb == "hidden":
            block.hidden.append(rest)
        elif verb == "file":
            block.kind, block.name = "file", rest
        else:
            setattr(block, verb, rest)
    return block


def steps(block):
    """The commands of a console block, each with the lines that it is said to print."""
    found = []
    for line in block.text.split("\n"):
        if line.startswith("$ ") or (found and found[-1][0].endswith("\\")):
            command = line.removeprefix("$ ")
            if found and found[-1][0].endswith("\\"):
                found[-1] = (found[-1][0] + "\n" + command, [])
            else:
                found.append((command, []))
        elif found:
            found[-1][1].append(line)
        else:
            raise ValueError(f"line {block.line}: output before the first command: {line}")
    return found
