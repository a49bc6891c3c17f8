import { render } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { type Who, connection, get, session } from "./api";
import { useChanges, useLive } from "./live";
import { Access } from "./pages/access";
import { Jobs } from "./pages/jobs";
import { Overview } from "./pages/overview";
import { Pools } from "./pages/pools";
import { Sandboxes } from "./pages/sandboxes";
import { Templates } from "./pages/templates";
import { Verify } from "./pages/verify";
import { Volumes } from "./pages/volumes";
import { Problem, Question, Toasts, inSight } from "./parts/basics";
import { useRoute } from "./route";
import { OneSandbox } from "./sandbox/page";
import { Logo, SignIn } from "./signin";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/pages.css";
import "./styles/figures.css";

const PAGES: [string, string, string][] = [
  ["", "Overview", "M3 3h8v10H3zM13 3h8v6h-8zM13 11h8v10h-8zM3 15h8v6H3z"],
  ["sandboxes", "Sandboxes", "M12 2l9 5v10l-9 5-9-5V7zM12 12l9-5M12 12v10M12 12L3 7"],
  ["templates", "Templates", "M4 4h16v5H4zM4 12h7v8H4zM14 12h6v8h-6z"],
  ["pools", "Pools", "M3 8c3 0 3 2 6 2s3-2 6-2 3 2 6 2M3 14c3 0 3 2 6 2s3-2 6-2 3 2 6 2"],
  ["volumes", "Volumes", "M4 6c0-2 16-2 16 0v12c0 2-16 2-16 0zM4 6c0 2 16 2 16 0M4 12c0 2 16 2 16 0"],
  ["jobs", "Jobs", "M4 6h2M4 12h2M4 18h2M9 6h11M9 12h11M9 18h11"],
  ["access", "Access", "M15 9a4 4 0 1 0-4 4l1-1h2v-2h2zM11 13l-7 7v-3l5-5"],
  ["verify", "Verify", "M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6zM8.5 12l2.5 2.5 4.5-5"],
];

function App() {
  useChanges();
  return (
    <>
      {session.token() ? <Inside /> : <SignIn />}
      <Toasts />
      <Question />
    </>
  );
}

function Inside() {
  const { parts, query } = useRoute();
  const who = useLive((signal) => get<Who>("/v1/whoami", signal), [], { everyMs: 60_000 });
  const [page = "", id, tab] = parts;
  useEffect(() => {
    const title = PAGES.find(([path]) => path === page)?.[1] ?? "Paddock";
    // Never a name from inside: titles are read by other programs.
    document.title = `${title} · Paddock`;
    document.querySelector("main")?.scrollTo(0, 0);
  }, [page]);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      const typing = (event.target as HTMLElement).closest("input, textarea, select, .xterm, dialog");
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      const to = PAGES[Number(event.key) - 1];
      if (to) location.hash = `#/${to[0]}`;
      if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("input[type=search]");
        if (search) event.preventDefault();
        search?.focus();
      }
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  return (
    <div class="frame">
      <a class="skip" href="#content" onClick={(event) => (event.preventDefault(), document.getElementById("content")?.focus())}>
        To the content
      </a>
      <nav aria-label="Pages">
        <a class="brand" href="#/">
          <Logo />
          <span>Paddock</span>
        </a>
        {PAGES.map(([path, name, icon], index) => (
          <a key={path} href={`#/${path}`} aria-current={page === path ? "page" : undefined} ref={page === path ? inSight : undefined} title={`${name} (${index + 1})`}>
            <svg viewBox="0 0 24 24" aria-hidden="true">
              <path d={icon} />
            </svg>
            <span>{name}</span>
          </a>
        ))}
        <Foot who={who.data} />
      </nav>
      <main id="content" tabIndex={-1}>
        {connection.lost && (
          <div class="banner" role="alert">
            <strong>The server does not answer.</strong> It is asked again until it does. Sandboxes go on without it.
          </div>
        )}
        {!connection.lost && <Problem error={who.error} retry={who.reload} />}
        {page === "" && <Overview />}
        {page === "sandboxes" && (id ? <OneSandbox key={id} id={id} tab={tab ?? ""} query={query} /> : <Sandboxes query={query} />)}
        {page === "templates" && <Templates build={id} />}
        {page === "pools" && <Pools />}
        {page === "volumes" && <Volumes id={id} />}
        {page === "jobs" && <Jobs id={id} />}
        {page === "access" && <Access who={who.data} />}
        {page === "verify" && <Verify />}
        {!PAGES.some(([path]) => path === page) && (
          <p class="empty">
            There is no such page. <a href="#/">To the overview</a>
          </p>
        )}
      </main>
    </div>
  );
}

const THEME = "paddock.theme";
const THEMES = ["system", "light", "dark"] as const;

function Foot({ who }: { who?: Who }) {
  const [theme, setTheme] = useState<string>(() => localStorage.getItem(THEME) ?? "system");
  // In one step with the button, so that none sees the name of one theme and the colours of another.
  useLayoutEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem(THEME, theme);
    dispatchEvent(new Event("themechange"));
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme as "system") + 1) % THEMES.length] ?? "system";
  return (
    <div class="foot">
      {who && (
        <p title="Whose token this tab has">
          {who.tenant}
          <small>{who.role}</small>
        </p>
      )}
      <button class="plain" onClick={() => setTheme(next)} title={`Theme: ${theme}; press for ${next}`}>
        {theme === "dark" ? "☾" : theme === "light" ? "☀" : "◐"}
        <span>{theme}</span>
      </button>
      <button class="plain" onClick={() => session.leave()} title="End the session of this tab">
        ↪<span>Sign out</span>
      </button>
    </div>
  );
}

document.documentElement.dataset.theme = localStorage.getItem(THEME) ?? "system";
const place = document.getElementById("app");
if (place) render(<App />, place);
