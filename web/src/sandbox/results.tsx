// One result in the form that shows most of it. HTML goes into a frame whose origin nothing else has; the rest is text or a picture.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Schema } from "../api";
import { plain, shown } from "../format";
import { Figure, chartsOf } from "../parts/figure";

const BASE64 = /^[A-Za-z0-9+/=\s]*$/;
const MOST_ROWS = 200;
const MOST_COLUMNS = 100;
const LONGEST_CELL = 1000;

export function Result({ result }: { result: Schema["CodeResult"] }) {
  return (
    <div class="result">
      <Best result={result} />
      {result.cut && result.cut.length > 0 && <p class="quiet">Too large, and left out or cut: {result.cut.join(", ")}</p>}
    </div>
  );
}

/** What is drawn from numbers can be read and enlarged; the picture has what the numbers leave out. */
function Best({ result }: { result: Schema["CodeResult"] }) {
  const [asPicture, setAsPicture] = useState(false);
  const charts = useMemo(() => chartsOf(result.chart), [result.chart]);
  if (!charts.length) return <Plain result={result} />;
  const hasPicture = result.png || result.jpeg || result.svg;
  return (
    <>
      {asPicture ? <Plain result={result} /> : <Figure charts={charts} />}
      {hasPicture && (
        <button class="link" aria-pressed={asPicture} onClick={() => setAsPicture(!asPicture)}>
          {asPicture ? "Draw it from its numbers" : "Show it as the code drew it"}
        </button>
      )}
    </>
  );
}

function Plain({ result }: { result: Schema["CodeResult"] }) {
  for (const kind of ["png", "jpeg"] as const) {
    const data = result[kind];
    if (data && BASE64.test(data)) return <img alt={plain(result.text ?? "Picture")} src={`data:image/${kind};base64,${data.replace(/\s/g, "")}`} />;
  }
  // As a picture it runs no script and loads nothing.
  if (result.svg) return <img alt={plain(result.text ?? "Drawing")} src={`data:image/svg+xml;charset=utf-8,${encodeURIComponent(result.svg)}`} />;
  const table = asTable(result.data);
  if (table) return <DataTable {...table} />;
  if (result.html) return <Html html={result.html} />;
  if (result.json !== undefined) return <pre class="output">{shown(JSON.stringify(result.json, null, 2))}</pre>;
  const text = result.markdown ?? result.latex ?? result.text;
  return <pre class="output">{plain(text ?? "")}</pre>;
}

interface TableData {
  columns: string[];
  rows: unknown[][];
  total: number;
  /** Columns that are not shown. */
  left: number;
}

function asTable(data: unknown): TableData | undefined {
  if (typeof data !== "object" || data === null) return undefined;
  const { columns, rows, total_rows } = data as { columns?: unknown; rows?: unknown; total_rows?: unknown };
  if (!Array.isArray(columns) || !Array.isArray(rows)) return undefined;
  const named = columns.slice(0, MOST_COLUMNS).map(titled);
  const cells = (row: unknown) => (Array.isArray(row) ? row.slice(0, MOST_COLUMNS) : named.map((column) => (row as Record<string, unknown> | null)?.[column]));
  const total = typeof total_rows === "number" ? total_rows : rows.length;
  return { columns: named, rows: rows.slice(0, MOST_ROWS).map(cells), total, left: columns.length - named.length };
}

function titled(column: unknown): string {
  const named = typeof column === "object" && column !== null ? (column as { name?: unknown }).name : column;
  return (typeof named === "string" ? plain(named) : shown(JSON.stringify(named) ?? "")).slice(0, LONGEST_CELL);
}

function celled(cell: unknown): string {
  if (cell === null || cell === undefined) return "";
  const text = typeof cell === "string" ? plain(cell) : typeof cell === "object" ? shown(JSON.stringify(cell)) : String(cell);
  return text.length > LONGEST_CELL ? `${text.slice(0, LONGEST_CELL)}…` : text;
}

function DataTable({ columns, rows, total, left }: TableData) {
  return (
    <div>
      <div class="scroll">
        <table aria-label="Table">
          <thead>
            <tr>
              {columns.map((column, index) => (
                <th key={index} scope="col">
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index}>
                {row.map((cell, at) => (
                  <td key={at} class={typeof cell === "number" ? "number" : ""}>
                    {celled(cell)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {(total > rows.length || left > 0) && (
        <p class="quiet">
          {rows.length} of {total} rows{left > 0 && `, ${columns.length} of ${columns.length + left} columns`}
        </p>
      )}
    </div>
  );
}

const MOST_HEIGHT = 600;

function Html({ html }: { html: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(80);
  useEffect(() => {
    const heard = (event: MessageEvent) => {
      const target = frame.current?.contentWindow;
      if (!target || event.source !== target) return;
      if (event.data?.ready === true) {
        const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
        // Its origin has no name, so that the message cannot be meant for one; the window is the frame's own.
        target.postMessage({ html, dark }, "*");
      }
      const wanted = Number(event.data?.height);
      if (wanted > 0) setHeight(Math.min(Math.ceil(wanted) + 8, MOST_HEIGHT));
    };
    addEventListener("message", heard);
    return () => removeEventListener("message", heard);
  }, [html]);
  return <iframe ref={frame} title="HTML of the result" sandbox="allow-scripts" src="/ui/frame" referrerpolicy="no-referrer" style={{ height: `${height}px` }} />;
}
