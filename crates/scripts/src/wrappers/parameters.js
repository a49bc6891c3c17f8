
// Second part: the parameters of main, read from its source. Types are gone once it runs, and with them what is optional.

// The parameter list of `function main(...)` or `const main = (...) =>`, as written; undefined where it is said otherwise.
function declaration(source, name) {
  const started = new RegExp(
    `^[ \\t]*(?:export\\s+)?(?:default\\s+)?(?:async\\s+)?(?:function\\s*\\*?\\s*${name}\\s*(?:<[^()]*>)?\\s*\\(|(?:const|let|var)\\s+${name}\\s*=\\s*(?:async\\s*)?(?:function\\b[^(]*)?\\()`,
    "m",
  ).exec(source);
  return started ? inner(source, started.index + started[0].length) : undefined;
}

// Of a function's own text.
function head(text) {
  const bare = /^(?:async\s+)?([\w$]+)\s*=>/.exec(text);
  if (bare) return bare[1];
  const open = text.indexOf("(");
  return open < 0 ? undefined : inner(text, open + 1);
}

// Up to the bracket that closes the one before `start`.
function inner(text, start) {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const after = skipped(text, at);
    if (after > at) {
      at = after - 1;
      continue;
    }
    if ("([{".includes(text[at])) depth++;
    else if (")]}".includes(text[at]) && depth-- === 0) return text.slice(start, at);
  }
  return undefined;
}

// Behind the string or comment that begins here, or the same place.
function skipped(text, at) {
  if (text.startsWith("//", at)) return ends(text, at, "\n");
  if (text.startsWith("/*", at)) return ends(text, at + 2, "*/");
  if (!"\"'`".includes(text[at])) return at;
  for (let end = at + 1; end < text.length; end++) {
    if (text[end] === "\\") end++;
    else if (text[end] === text[at]) return end + 1;
  }
  return text.length;
}

function ends(text, from, mark) {
  const found = text.indexOf(mark, from);
  return found < 0 ? text.length : found + mark.length;
}

function parameters(list) {
  return pieces(list).map((piece) => {
    const bare = piece.text.trim();
    const rest = bare.startsWith("...");
    const named = /^(?:\.\.\.)?\s*([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*(\??)/u.exec(bare);
    const optional = piece.value || named?.[2] === "?" || /\|\s*undefined\b|\bundefined\s*\|/.test(bare);
    return { name: named ? named[1] : null, optional, rest };
  });
}

// Cut at commas that stand in no brackets; comments are left out, and what follows `=` is only noted.
function pieces(list) {
  const all = [];
  let text = "";
  let depth = 0;
  let value = false;
  const finish = () => {
    if (text.trim()) all.push({ text, value });
    [text, value] = ["", false];
  };
  for (let at = 0; at < list.length; at++) {
    const after = skipped(list, at);
    if (after > at) {
      if (list[at] !== "/" && !value) text += list.slice(at, after);
      at = after - 1;
      continue;
    }
    const sign = list[at];
    const arrow = sign === ">" && list[at - 1] === "=";
    if ("([{".includes(sign) || (sign === "<" && !value)) depth++;
    else if (")]}".includes(sign) || (sign === ">" && !value && !arrow)) depth--;
    if (sign === "," && depth === 0) {
      finish();
      continue;
    }
    if (sign === "=" && depth === 0 && list[at + 1] !== ">") value = true;
    if (!value) text += sign;
  }
  finish();
  return all;
}
