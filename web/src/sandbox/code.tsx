// Code in a context that remembers, with its results as pictures, tables and text.

import { useState } from "preact/hooks";
import { type Failure, type Schema, get, path, send } from "../api";
import { name, plain } from "../format";
import { useLive } from "../live";
import { Action, Empty, Problem, State } from "../parts/basics";
import { Output, cause, useOutput } from "./output";
import { Result } from "./results";

const LANGUAGES = ["python", "javascript", "typescript", "bash", "sh"];

export function Code({ sandbox }: { sandbox: Schema["Sandbox"] }) {
  const [code, setCode] = useState("");
  const [language, setLanguage] = useState("python");
  const [execs, setExecs] = useState<{ exec: number; code: string }[]>([]);
  const [error, setError] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const contexts = useLive((signal) => get<{ contexts: Schema["Context"][] }>(path`/v1/sandboxes/${sandbox.id}/contexts`, signal), [sandbox.id], {
    on: (event) => event.sandbox === sandbox.id && event.kind.startsWith("exec_"),
    leastMs: 1000,
  });
  const run = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const started = await send<Schema["Exec"]>("POST", path`/v1/sandboxes/${sandbox.id}/code`, { code, language, background: true });
      setExecs((before) => [{ exec: started.exec, code }, ...before].slice(0, 20));
    } catch (failure) {
      setError(failure as Failure);
    } finally {
      setBusy(false);
    }
  };
  if (sandbox.state === "ended") return <Empty>The sandbox has ended; no code runs in it any more.</Empty>;
  return (
    <div class="stack">
      <form
        class="editor"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <textarea
          aria-label="Code"
          class="mono"
          rows={8}
          spellcheck={false}
          placeholder={"import pandas as pd\npd.DataFrame({'a': [1, 2, 3]})"}
          value={code}
          onInput={(event) => setCode(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
              event.preventDefault();
              void run();
            }
          }}
        />
        <div class="bar">
          <select aria-label="Language" value={language} onChange={(event) => setLanguage(event.currentTarget.value)}>
            {LANGUAGES.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
          <button class="primary" disabled={busy || !code.trim()}>
            Run
          </button>
          <span class="quiet">Ctrl+Enter</span>
          <div class="spring" />
          {contexts.data?.contexts.map((one) => (
            <span key={one.id} class="chip">
              {name(one.language)} <State state={one.state} />
              {one.state === "busy" && <Action run={() => send("POST", path`/v1/sandboxes/${sandbox.id}/contexts/${one.id}/interrupt`)}>Interrupt</Action>}
              <Action run={() => send("POST", path`/v1/sandboxes/${sandbox.id}/contexts/${one.id}/restart`).then(contexts.reload)}>Restart</Action>
            </span>
          ))}
        </div>
      </form>
      <Problem error={error} />
      {execs.map((one) => (
        <Cell key={one.exec} sandbox={sandbox.id} exec={one.exec} code={one.code} />
      ))}
    </div>
  );
}

function Cell({ sandbox, exec, code }: { sandbox: string; exec: number; code: string }) {
  const { collected, error } = useOutput(sandbox, exec);
  const findings = collected.exec?.findings ?? [];
  const printed = collected.pieces.filter((piece) => piece.stream === "stderr").map((piece) => piece.text).join("");
  // Most interpreters print the trace themselves.
  const told = collected.error !== undefined && collected.error.traceback.trim() !== "" && printed.includes(collected.error.traceback.trim());
  return (
    <article class="cell" aria-label={`Result ${exec}`}>
      <pre class="source">{code}</pre>
      <Problem error={error} />
      {collected.pieces.length > 0 && <Output collected={collected} />}
      {collected.results.map((result, index) => (
        <Result key={index} result={result} />
      ))}
      {collected.error && !told && (
        <pre class="output bad">
          {collected.error.name}: {plain(collected.error.value)}
          {"\n"}
          {plain(collected.error.traceback)}
        </pre>
      )}
      {findings.map((one, index) => (
        <p key={index} class="bad">
          Line {one.line}: {name(one.text)}
        </p>
      ))}
      <footer class="quiet">{collected.exec ? name(cause(collected.exec)) : "runs"}</footer>
    </article>
  );
}
