"""What a Dockerfile says, line by line, with every instruction that a template's build cannot do refused in words.

Written by hand: dockerfile-parse, which E2B's SDK uses, knows neither here-documents nor the flags of instructions,
and has no variables of the base image.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: They describe an image to people and to other tools, and change nothing that runs in it.
WITHOUT_EFFECT = {"LABEL", "EXPOSE", "MAINTAINER", "STOPSIGNAL"}
KNOWN = {
    *(
        "FROM",
        "RUN",
        "COPY",
        "ADD",
        "ENV",
        "ARG",
        "WORKDIR",
        "USER",
        "SHELL",
        "CMD",
        "ENTRYPOINT",
        "VOLUME",
        "HEALTHCHECK",
    ),
    *WITHOUT_EFFECT,
}
REFUSED = {
    "ONBUILD": "nothing is built upon the template by a Dockerfile",
}
FLAGS = {
    "HEALTHCHECK": {"interval", "timeout", "start-period", "start-interval", "retries"},
    "FROM": {"platform"},
    "COPY": {"chown", "chmod"},
    "ADD": {"chown", "chmod"},
}
FLAG_REASONS = {
    ("RUN", "mount"): "a step of a build sees its own files alone",
    ("COPY", "from"): "files of other images and stages cannot be copied",
}


class DockerfileError(ValueError):
    """The file cannot be built here; the message names the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"Dockerfile, line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(frozen=True)
class Instruction:
    line: int
    name: str
    #: What follows the flags, continued lines as one.
    text: str
    flags: Mapping[str, str] = field(default_factory=dict)
    #: By the word that begins each (`<<EOF`), the here-documents.
    documents: Mapping[str, HereDocument] = field(default_factory=dict)

    def refuse(self, reason: str) -> DockerfileError:
        return DockerfileError(self.line, f"{self.name}: {reason}")

    def exec_form(self) -> list[str] | None:
        if not self.text.startswith("["):
            return None
        try:
            found = json.loads(self.text)
        except ValueError:
            # Docker takes it for a line of the shell too.
            return None
        return found if isinstance(found, list) and all(isinstance(word, str) for word in found) else None


@dataclass(frozen=True)
class HereDocument:
    name: str
    text: str
    #: Without quotes around its name, variables in it are replaced.
    expands: bool
    #: With its first and last line, as a shell reads it.
    source: str


def read(text: str) -> list[Instruction]:
    """All instructions of one stage, `FROM` (after any `ARG`) first."""
    found = []
    for instruction in _instructions(text):
        _check(instruction)
        if instruction.name not in WITHOUT_EFFECT:
            found.append(instruction)
    stages = [one for one in found if one.name == "FROM"]
    if not stages:
        raise DockerfileError(1, "there is no FROM")
    if len(stages) > 1:
        raise stages[1].refuse("a second stage cannot be built; build the first elsewhere, and begin with its image")
    first = next(one for one in found if one.name != "ARG")
    if first.name != "FROM":
        raise first.refuse("comes before FROM")
    return found


def _check(one: Instruction) -> None:
    if one.name in REFUSED:
        raise one.refuse(f"cannot be done: {REFUSED[one.name]}")
    if one.name not in KNOWN:
        raise one.refuse("is no instruction that is known here")
    for flag in one.flags:
        if flag not in FLAGS.get(one.name, ()):
            reason = FLAG_REASONS.get((one.name, flag), "it has no meaning here")
            raise one.refuse(f"--{flag} cannot be done: {reason}")
    if not one.text:
        raise one.refuse("has no argument")
    if one.documents and one.name not in ("RUN", "COPY"):
        raise one.refuse("has a here-document, which RUN and COPY alone may have")


def _instructions(text: str) -> list[Instruction]:
    lines = text.removeprefix("\ufeff").splitlines()
    escape = re.match(r"#\s*escape\s*=\s*(\S)", text)
    if escape and escape[1] != "\\":
        raise DockerfileError(1, f"the escape character {escape[1]} is not supported")
    found, at = [], 0
    while at < len(lines):
        if not (head := lines[at].strip()) or head.startswith("#"):
            at += 1
            continue
        begin, parts = at, []
        while True:
            # Comments and empty lines within a continued line are no part of it.
            line = lines[at].rstrip()
            at += 1
            if parts and (not line.strip() or line.lstrip().startswith("#")):
                if at < len(lines):
                    continue
                break
            parts.append(line.removesuffix("\\"))
            if not line.endswith("\\") or at >= len(lines):
                break
        name, _, rest = "".join(parts).strip().partition(" ")
        documents, at = _here_documents(name.upper(), rest, lines, at, begin + 1)
        flags, rest = _flags(rest.strip())
        found.append(Instruction(begin + 1, name.upper(), rest, flags, documents))
    return found


def _here_documents(name: str, rest: str, lines: list[str], at: int, line: int) -> tuple[dict[str, HereDocument], int]:
    documents: dict[str, HereDocument] = {}
    if name not in ("RUN", "COPY", "ADD"):
        return documents, at
    for word, dash, quote, label in re.findall(r"(?<!<)(<<(-?)(['\"]?)([A-Za-z_]\w*)\3)(?!<)", rest):
        body, begin = [], at
        while at < len(lines) and (lines[at].lstrip("\t") if dash else lines[at]) != label:
            body.append(lines[at].lstrip("\t") if dash else lines[at])
            at += 1
        if at == len(lines):
            raise DockerfileError(line, f"the here-document {label} has no end")
        at += 1
        source = "".join(f"{one}\n" for one in lines[begin:at])
        documents[word] = HereDocument(label, "".join(f"{one}\n" for one in body), not quote, source)
    return documents, at


def _flags(rest: str) -> tuple[dict[str, str], str]:
    flags: dict[str, str] = {}
    while found := re.match(r"--([a-z-]+)(?:=(\S*))?\s*", rest):
        flags[found[1]] = found[2] or ""
        rest = rest[found.end() :]
    return flags, rest


_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::([-+])([^}]*))?\})")


def words(text: str, variables: Mapping[str, str]) -> list[str]:
    """The words of a line without quotes and backslashes, and with `$A`, `${A}`, `${A:-default}`, `${A:+b}` replaced.

    A value with spaces stays one word, and a name that has no value is empty.
    """
    found: list[str] = []
    word: str | None = None
    quote, at = "", 0
    while at < len(text):
        character, at = text[at], at + 1
        variable = _VARIABLE.match(text, at - 1) if character == "$" and quote != "'" else None
        if variable:
            word, at = (word or "") + _value(variable, variables), variable.end()
        elif character == "\\" and quote != "'" and at < len(text):
            following, at = text[at], at + 1
            keeps = quote and following not in '"\\$'
            word = (word or "") + ("\\" if keeps else "") + following
        elif character == quote:
            quote = ""
        elif quote:
            word = (word or "") + character
        elif character in "'\"":
            quote, word = character, word or ""
        elif character.isspace():
            found += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + character
    if quote:
        raise ValueError(f"the quote {quote} is not closed")
    return found if word is None else [*found, word]


def _value(found: re.Match[str], variables: Mapping[str, str]) -> str:
    name, sign, word = found[1] or found[2], found[3], found[4] or ""
    there = variables.get(name, "")
    if sign == "-":
        return there or _VARIABLE.sub(lambda inner: _value(inner, variables), word)
    if sign == "+":
        return _VARIABLE.sub(lambda inner: _value(inner, variables), word) if there else ""
    return there


def in_document(text: str, variables: Mapping[str, str]) -> str:
    """A here-document with its variables replaced; a backslash before `$` keeps it."""
    kept = re.split(r"(\\\\|\\\$)", text)
    return "".join(
        part[1] if part in ("\\\\", "\\$") else _VARIABLE.sub(lambda found: _value(found, variables), part)
        for part in kept
    )


def one_word(one: Instruction, variables: Mapping[str, str]) -> str:
    """The argument of an instruction that has one."""
    found = _words(one, one.text, variables)
    if len(found) != 1:
        raise one.refuse(f"has {len(found)} arguments, and has to have one")
    return found[0]


def many_words(one: Instruction, variables: Mapping[str, str]) -> list[str]:
    """The words of a line, or those of the exec form, with variables replaced."""
    found = one.exec_form()
    if found is None:
        return _words(one, one.text, variables)
    return [_VARIABLE.sub(lambda inner: _value(inner, variables), word) for word in found]


def pairs(one: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
    """What ENV or ARG sets: `A=1 B="x y"`, or for ENV the older `A all the rest`."""
    if one.name == "ENV" and not re.match(r"[^\s=]+=", one.text):
        name, _, value = one.text.partition(" ")
        return {name: " ".join(_words(one, value, variables))}
    made = {}
    for word in _words(one, one.text, variables):
        name, equals, value = word.partition("=")
        if not equals and one.name == "ENV":
            raise one.refuse(f"{word!r} is not NAME=VALUE")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise one.refuse(f"{name!r} is no name of a variable")
        if equals or one.name == "ENV":
            made[name] = value
        else:
            made.setdefault(name, "")
    return made


def _words(one: Instruction, text: str, variables: Mapping[str, str]) -> list[str]:
    try:
        return words(text, variables)
    except ValueError as error:
        raise one.refuse(str(error)) from error
