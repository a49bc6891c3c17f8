// The way in: a code of `paddock ui` in the address, or a token that a person types.

import { useEffect, useState } from "preact/hooks";
import { Failure, type Schema, ask, send, session } from "./api";
import { Problem, Waiting } from "./parts/basics";

const CODE = /^#code=([A-Za-z0-9_-]{1,200})$/;

/** The code in the address, which is taken out of it and out of the history before anything is asked. */
function codeOfAddress(): string | undefined {
  const code = CODE.exec(location.hash)?.[1];
  if (code) history.replaceState(null, "", `${location.pathname}#/`);
  return code;
}

const atStart = codeOfAddress();
let exchanged = false;

export function SignIn() {
  const [error, setError] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const [token, setToken] = useState("");
  const exchange = async (code: string) => {
    setBusy(true);
    try {
      const made = await send<Schema["CreatedToken"]>("POST", "/v1/sign-in", { code });
      session.begin(made.secret, made.id);
    } catch (failure) {
      setError(failure as Failure);
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => {
    if (atStart && !exchanged) {
      exchanged = true;
      void exchange(atStart);
    }
    const changed = () => {
      const code = codeOfAddress();
      if (code) void exchange(code);
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await ask("/v1/whoami", { token: token.trim() });
      session.begin(token.trim());
    } catch (failure) {
      setError(inTheForm(failure as Failure));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="signin">
      <form class="card" onSubmit={submit}>
        <h1>
          <Logo /> Paddock
        </h1>
        <p>
          Run <code>paddock ui</code> on the server's host for a link that signs you in, or give a token.
        </p>
        <label>
          Token
          <input
            type="password"
            name="token"
            autocomplete="off"
            spellcheck={false}
            autofocus
            required
            value={token}
            placeholder="pdk_…"
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <button class="primary" disabled={busy || !token.trim()}>
          Sign in
        </button>
        {busy && <Waiting what="Signing in" />}
        <Problem error={error} />
        <p class="quiet">
          The token stays in this tab and goes with it. <code>paddock token create</code> makes one.
        </p>
      </form>
    </main>
  );
}

/** The server's hint is for programs, which send a header. */
function inTheForm(failure: Failure): Failure {
  if (failure.status !== 401) return failure;
  const hint = "Copy it again as `paddock token create` printed it. One that was revoked or has ended is not known any more: make another on the server's host.";
  return new Failure(failure.status, failure.code, failure.message, hint, failure.requestId);
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path d="M7 12h18M7 19h18M10 8v16M16 8v16M22 8v16" />
    </svg>
  );
}
