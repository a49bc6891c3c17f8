
// A part of the runner: TypeScript to JavaScript, by the Sucrase that comes before it (crates/scripts/vendor). Nothing of the
// template is asked: what a package called typescript is able to do has changed with its versions. Types are not checked.

function strip(source) {
  try {
    return sucrase.stripTypes(source);
  } catch (failure) {
    if (!failure || !failure.loc) throw failure;
    const { line, column } = failure.loc;
    throw misspelt(String(failure.message).replace(/ \(\d+:\d+\)$/, ""), line, column, source);
  }
}

// In the form that a SyntaxError has elsewhere: what, where, and the line.
function misspelt(message, line, column, source) {
  const error = new SyntaxError(`${message} (line ${line}, column ${column})`);
  const text = (source.split("\n")[line - 1] ?? "").slice(0, 400);
  error.stack = `SyntaxError: ${error.message}\n${line} | ${text}`;
  return error;
}
