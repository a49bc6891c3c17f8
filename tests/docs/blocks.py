"""Reads the code blocks of a Markdown file, in order, with the directives that stand before them.

A directive is an HTML comment, which no reader sees:

    <!-- test: hidden
    shell lines that run before the next block; they must succeed, and their output is not compared
    -->
    <!-- test: file NAME -->        the next block is the content of the file NAME
    <!-- test: needs COMPONENT -->  the next block is skipped where the host lacks the component (gvisor, microvm, integrations, rewards)
    <!-- test: skip REASON -->      the next block is not run; the reason is printed
    <!-- test: shown WHAT -->       the next block shows something that nobody runs, like a drawing or what a command prints; what it is, is printed

A block without a directive is commands behind `$ `, or Python, or data that a parser takes. There is no fourth kind, whatever its fence says.
"""

import configparser
import json
import re
import tomllib
from dataclasses import dataclass, field

DIRECTIVE = re.compile(r"<!-- test: (hidden|file|needs|skip|shown)\b(.*?)-->", re.S)
FENCE = re.compile(r"( *)(```+|~~~+)(.*)")
ITEM = re.compile(r"( *)([-*+]|\d+[.)]) +")
# They are no shell and no Python, and have tests of their own (sdk/typescript/run_tests.py).
OTHER_LANGUAGES = ["typescript"]


@dataclass
class Block:
    line: int
    kind: str  # console, python, file, data, other; unknown: none of these
    text: str
    hidden: list = field(default_factory=list)
    name: str = ""
    needs: str = ""
    skip: str = ""
    shown: str = ""


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
        elif opened := FENCE.fullmatch(line):
            indent, mark, language = opened.groups()
            end = next(index for index in range(number + 1, len(lines)) if re.fullmatch(rf" *{mark}{mark[0]}* *", lines[index]))
            text = "\n".join(one.removeprefix(indent) for one in lines[number + 1 : end])
            blocks.append(finish(Block(number + 1, kind_of(text, language.strip()), text), pending))
            pending, number = [], end + 1
        elif line.startswith("    ") and number > 0 and not lines[number - 1].strip() and (depth := code_depth(lines, number)):
            end = number
            while end < len(lines) and (lines[end].startswith(" " * depth) or not lines[end].strip()):
                end += 1
            text = "\n".join(one[depth:] for one in lines[number:end]).rstrip("\n")
            blocks.append(finish(Block(number + 1, kind_of(text), text), pending))
            pending, number = [], end
        elif line.lstrip().startswith("<pre"):
            raise ValueError(f"{path}:{number + 1}: nobody reads a block of HTML here; indent it, or fence it")
        else:
            number += 1
    if pending:
        blocks.append(finish(Block(len(lines), "nothing", ""), pending))
    return blocks


def kind_of(text, language=""):
    """What the block is by its content: the language of a fence is only believed where it says that a test runs it."""
    if text.startswith("$ ") or "\n$ " in text:
        return "console"
    if language in ("python", "python3", "py"):
        return "python"
    if language in OTHER_LANGUAGES and re.search(r"^(import .+ from '|const |await )", text, re.M):
        return "other"
    return "data" if is_data(text) else "unknown"


def is_data(text):
    """True of JSON, TOML and unit files. `NAME="VALUE"` alone is TOML as well as shell, and none of these."""
    if all(re.fullmatch(r"(export )?\w+=\S*|\s*(#.*)?", line) for line in text.split("\n")):
        return False
    for parse in (json.loads, tomllib.loads, sections):
        try:
            if isinstance(parse(text), dict):
                return True
        except (ValueError, configparser.Error):
            continue
    return False


def sections(text):
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    parser.read_string(text)
    if not parser.sections():
        raise ValueError("no section")
    return dict(parser)


def code_depth(lines, number):
    """The columns by which code is indented here, or 0 if this line is a paragraph of the list item above it."""
    for index in range(number - 1, -1, -1):
        if item := ITEM.match(lines[index]):
            depth = item.end() + 4
            return depth if lines[number].startswith(" " * depth) else 0
        if lines[index].strip() and not lines[index].startswith(" "):
            return 4
    return 4


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
