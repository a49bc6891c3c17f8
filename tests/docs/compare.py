"""Compares printed output with the output that a document shows.

Values that differ from run to run are compared by their form: ids, times, sizes, durations. An id of the document stands for the id that was
printed in its place, also in later commands. `...` stands for anything: within a line for a part of it, alone for any number of lines.
"""

import re

ID = r"\b(?:sb|sn|job|tk|as)-[0-9a-f]{16}\b|\bpaddock-secret-[0-9a-f]{32}\b|\bpdk_[A-Za-z0-9]+(?:\.\.\.)?|\btk-[0-9a-f]+\b"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"
AMOUNT = r"(?<![\w.])\d+(?:\.\d+)? (?:ms|s|B|KiB|MiB|GiB|min)\b"
AGE = r"\b(?:in )?\d+ (?:second|minute|hour|day)s?(?: ago)?\b|\bjust now\b"
KERNEL = r"\b\d+\.\d+\.\d+-\d+-amd64\b"
WIDE = r" {2,}"
FORMS = re.compile("|".join(f"({form})" for form in (ID, TIME, AMOUNT, AGE, KERNEL, WIDE, r"\.\.\.")))
# By the group that matched: the form of what may stand there. The first is an id, whose value is remembered.
INSTEAD = ["(\\S+)", TIME, AMOUNT, f"(?:{AGE})", KERNEL, " +", ".*"]


class Names:
    """The ids of a document, and the ids that were printed in their place."""

    def __init__(self):
        self.real = {}

    def put(self, text):
        for shown, real in self.real.items():
            text = text.replace(shown, real)
        return text


def pattern(line):
    """A regular expression for a shown line, and the ids in it in their order."""
    parts, ids, end = [], [], 0
    for found in FORMS.finditer(line):
        parts.append(re.escape(line[end : found.start()]))
        group = next(index for index in range(1, len(INSTEAD) + 1) if found.group(index) is not None)
        if group == 1:
            ids.append(found[0].removesuffix("..."))
        parts.append(INSTEAD[group - 1])
        end = found.end()
    parts.append(re.escape(line[end:]))
    return re.compile("".join(parts) + r"\s*"), ids


def differs(shown, printed, names):
    """None where they agree; else the first line that does not, in words."""
    shown = [line.rstrip() for line in shown]
    while shown and not shown[-1]:
        shown.pop()
    printed = [line.rstrip() for line in printed]
    while printed and not printed[-1]:
        printed.pop()
    at = 0
    for number, line in enumerate(shown):
        if line == "...":
            following = shown[number + 1] if number + 1 < len(shown) else None
            while at < len(printed) and not (following and pattern(names.put(following))[0].fullmatch(printed[at])):
                at += 1
            continue
        wanted, ids = pattern(names.put(line))
        if at >= len(printed):
            return f"the document goes on with `{line}`, and nothing more was printed"
        found = wanted.fullmatch(printed[at])
        if not found:
            return f"the document shows `{line}`, and `{printed[at]}` was printed"
        for shown_id, real_id in zip(ids, found.groups()):
            if not any(shown_id == known for known in names.real.values()):
                names.real.setdefault(shown_id, real_id)
        at += 1
    if at < len(printed):
        return f"`{printed[at]}` was printed, and the document does not show it"
    return None


def expected_of_python(source):
    """The comments behind the calls of print, in order: what each is said to print."""
    lines = (re.search(r"\bprint\(.*\)\s+# (.*)$", line) for line in source.split("\n"))
    return [found[1] for found in lines if found]


def differs_python(source, printed, names):
    """A comment may go on behind a colon: `42: the value of the last expression`."""
    expected = expected_of_python(source)
    printed = [line for line in printed if line.strip()]
    shown = []
    for number, line in enumerate(expected):
        real = printed[number] if number < len(printed) else ""
        shown.append(real if line.startswith(real + ": ") and real else line)
    return differs(shown, printed, names)
