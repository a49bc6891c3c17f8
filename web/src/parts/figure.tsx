// A figure, drawn from the numbers that the code drew it from. All of them come from inside a sandbox, so each is looked at: what is
// not a finite number is no point, texts are short, and there are only so many of each.

import type { ComponentChildren } from "preact";
import { plain } from "../format";

const WIDTH = 640;
const HEIGHT = 360;
const LEFT = 64;
const BOTTOM = 46;
const TOP = 14;
const RIGHT = 14;
const MOST_SERIES = 12;
const MOST_POINTS = 2000;
const MOST_BARS = 200;
const MOST_TICKS = 12;
const MOST_PARTS = 9;
const LONGEST = 60;
/** In milliseconds; a later one has no name. */
const LAST_DATE = 8.64e15;

interface Scale {
  at: (value: number) => number;
  ticks: { at: number; label: string }[];
}

export interface Chart {
  kind: "line" | "scatter" | "bar" | "pie" | "box";
  title?: string;
  xLabel?: string;
  yLabel?: string;
  draw: () => ComponentChildren;
  legend: { label: string; colour: number }[];
}

type Fields = Record<string, unknown>;

/** The charts of a figure; none where it has none that can be drawn, so that its picture is shown. */
export function chartsOf(data: unknown): Chart[] {
  const found = fields(data);
  if (!found) return [];
  // Axes that have nothing of their own, such as empty ones and those of a scale of colours, are left out beside others.
  const parts = found.type === "superchart" ? list(found.elements, MOST_PARTS).filter((part) => list(fields(part)?.elements, 1).length > 0) : [found];
  const charts = parts.map(one);
  return charts.every((chart) => chart !== undefined) ? (charts as Chart[]) : [];
}

export function Figure({ charts }: { charts: Chart[] }) {
  return (
    <div class="figures">
      {charts.map((chart, index) => (
        <figure key={index} class="figure">
          {chart.title && <figcaption>{chart.title}</figcaption>}
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={chart.title ?? `A ${chart.kind} chart`}>
            {chart.draw()}
            {chart.xLabel && (
              <text class="axis" x={(LEFT + WIDTH - RIGHT) / 2} y={HEIGHT - 6} text-anchor="middle">
                {chart.xLabel}
              </text>
            )}
            {chart.yLabel && (
              <text class="axis" x={12} y={HEIGHT / 2} text-anchor="middle" transform={`rotate(-90 12 ${HEIGHT / 2})`}>
                {chart.yLabel}
              </text>
            )}
          </svg>
          {chart.legend.length > 0 && (
            <ul class="legend">
              {chart.legend.map(({ label, colour }, at) => (
                <li key={at}>
                  <i class={`series-${colour}`} /> {label}
                </li>
              ))}
            </ul>
          )}
        </figure>
      ))}
    </div>
  );
}

function one(data: unknown): Chart | undefined {
  const chart = fields(data);
  // Of axes with several kinds of things the elements are one: their picture has all.
  if (!chart || chart.drawn === "several") return undefined;
  const head = { title: text(chart.title), xLabel: text(chart.x_label), yLabel: text(chart.y_label) };
  switch (chart.type) {
    case "line":
    case "scatter":
      return points(chart, chart.type, head);
    case "bar":
      return bars(chart, head);
    case "pie":
      return pie(chart, head);
    case "box":
      return boxes(chart, head);
    default:
      return undefined;
  }
}

type Head = Pick<Chart, "title" | "xLabel" | "yLabel">;

function points(chart: Fields, kind: "line" | "scatter", head: Head): Chart | undefined {
  const all = list(chart.elements, MOST_SERIES).map(fields).filter((element) => element !== undefined);
  const xs = places(all.flatMap((element) => pairs(element).map(([x]) => x)), chart.x_scale);
  const ys = places(all.flatMap((element) => pairs(element).map(([, y]) => y)), chart.y_scale);
  const series = all.map((element, index) => ({
    label: text(element.label),
    colour: index,
    points: pairs(element)
      .map(([x, y]) => [xs.of(x), ys.of(y)] as const)
      .filter((point): point is readonly [number, number] => point[0] !== undefined && point[1] !== undefined),
  }));
  if (!series.some((one) => one.points.length > 0)) return undefined;
  const across = scale(series.flatMap((one) => one.points.map(([x]) => x)), LEFT, WIDTH - RIGHT, xs, chart.x_scale);
  const up = scale(series.flatMap((one) => one.points.map(([, y]) => y)), HEIGHT - BOTTOM, TOP, ys, chart.y_scale);
  const draw = () => (
    <>
      <Grid across={across} up={up} />
      {series.map((one, index) =>
        kind === "line" ? (
          <polyline key={index} class={`line series-${one.colour}`} points={one.points.map(([x, y]) => `${across.at(x).toFixed(1)},${up.at(y).toFixed(1)}`).join(" ")} />
        ) : (
          <g key={index} class={`series-${one.colour}`}>
            {one.points.map(([x, y], at) => (
              <circle key={at} cx={across.at(x).toFixed(1)} cy={up.at(y).toFixed(1)} r="3" />
            ))}
          </g>
        ),
      )}
    </>
  );
  return { kind, ...head, draw, legend: legend(series.map((one) => one.label)) };
}

function bars(chart: Fields, head: Head): Chart | undefined {
  const all = list(chart.elements, MOST_BARS).map(fields).filter((element) => element !== undefined);
  const groups = [...new Set(all.map((element) => text(element.group) ?? ""))].slice(0, MOST_SERIES);
  const labels = [...new Set(all.map((element) => shown(element.label)))];
  const found = all
    .map((element) => ({ at: labels.indexOf(shown(element.label)), group: groups.indexOf(text(element.group) ?? ""), value: number(element.value) }))
    .filter((bar): bar is { at: number; group: number; value: number } => bar.value !== undefined && bar.group >= 0);
  if (!found.length) return undefined;
  const up = scale([0, ...found.map((bar) => bar.value)], HEIGHT - BOTTOM, TOP, undefined, chart.y_scale === "log" ? "linear" : chart.y_scale);
  const room = (WIDTH - LEFT - RIGHT) / labels.length;
  const width = (room * 0.8) / groups.length;
  const every = Math.ceil(labels.length / MOST_TICKS);
  const across: Scale = {
    at: (at) => LEFT + room * (at + 0.5),
    ticks: labels.map((label, at) => ({ at: LEFT + room * (at + 0.5), label })).filter((_, at) => at % every === 0),
  };
  const draw = () => (
    <>
      <Grid across={across} up={up} />
      {found.map((bar, index) => {
        const [top, base] = [Math.min(up.at(bar.value), up.at(0)), Math.max(up.at(bar.value), up.at(0))];
        const x = LEFT + room * bar.at + room * 0.1 + width * bar.group;
        return (
          <rect key={index} class={`series-${bar.group}`} x={x.toFixed(1)} width={Math.max(width - 1, 0.5).toFixed(1)} y={top.toFixed(1)} height={Math.max(base - top, 0.5).toFixed(1)}>
            <title>{`${labels[bar.at]}: ${bar.value}`}</title>
          </rect>
        );
      })}
    </>
  );
  return { kind: "bar", ...head, draw, legend: groups.length > 1 ? legend(groups) : [] };
}

function pie(chart: Fields, head: Head): Chart | undefined {
  const parts = list(chart.elements, MOST_SERIES)
    .map(fields)
    .map((element) => ({ label: shown(element?.label), share: number(element?.share) ?? 0 }))
    .filter((part) => part.share > 0);
  const all = parts.reduce((sum, part) => sum + part.share, 0);
  if (!(all > 0) || !Number.isFinite(all)) return undefined;
  const [x, y, radius] = [WIDTH / 2, HEIGHT / 2, HEIGHT / 2 - 16];
  const place = (turn: number) => `${(x + radius * Math.sin(turn * 2 * Math.PI)).toFixed(1)} ${(y - radius * Math.cos(turn * 2 * Math.PI)).toFixed(1)}`;
  const draw = () => {
    let turn = 0;
    return parts.map((part, index) => {
      const share = part.share / all;
      const from = turn;
      turn += share;
      if (share > 0.9999) return <circle key={index} class={`series-${index}`} cx={x} cy={y} r={radius} />;
      return (
        <path key={index} class={`series-${index}`} d={`M ${x} ${y} L ${place(from)} A ${radius} ${radius} 0 ${share > 0.5 ? 1 : 0} 1 ${place(turn)} Z`}>
          <title>{`${part.label}: ${(100 * share).toFixed(1)} %`}</title>
        </path>
      );
    });
  };
  return { kind: "pie", ...head, draw, legend: parts.map((part, colour) => ({ label: `${part.label} ${((100 * part.share) / all).toFixed(1)} %`, colour })) };
}

const LEVELS = ["min", "first_quartile", "median", "third_quartile", "max"] as const;

function boxes(chart: Fields, head: Head): Chart | undefined {
  const all = list(chart.elements, MOST_BARS).map(fields);
  const found = all.map((element) => ({ label: shown(element?.label), levels: LEVELS.map((level) => number(element?.[level])) }));
  const whole = found.filter((box): box is { label: string; levels: number[] } => box.levels.every((level) => level !== undefined));
  if (!whole.length) return undefined;
  const up = scale(whole.flatMap((box) => box.levels), HEIGHT - BOTTOM, TOP, undefined, "linear");
  const room = (WIDTH - LEFT - RIGHT) / whole.length;
  const middle = (at: number) => LEFT + room * (at + 0.5);
  const across: Scale = { at: middle, ticks: whole.map((box, at) => ({ at: middle(at), label: box.label })).slice(0, MOST_TICKS) };
  const half = Math.min(room * 0.3, 50);
  const draw = () => (
    <>
      <Grid across={across} up={up} />
      {whole.map(({ levels }, at) => {
        const [low = 0, first = 0, median = 0, third = 0, high = 0] = levels.map(up.at);
        const x = middle(at);
        return (
          <g key={at} class="box series-0">
            <path d={`M ${x} ${low} V ${first} M ${x} ${third} V ${high} M ${x - half / 2} ${low} H ${x + half / 2} M ${x - half / 2} ${high} H ${x + half / 2}`} />
            <rect x={x - half} width={2 * half} y={Math.min(first, third)} height={Math.max(Math.abs(first - third), 0.5)} />
            <path d={`M ${x - half} ${median} H ${x + half}`} />
          </g>
        );
      })}
    </>
  );
  return { kind: "box", ...head, draw, legend: [] };
}

function Grid({ across, up }: { across: Scale; up: Scale }) {
  return (
    <g class="grid-lines">
      {up.ticks.map((tick, index) => (
        <g key={index}>
          <line x1={LEFT} x2={WIDTH - RIGHT} y1={tick.at.toFixed(1)} y2={tick.at.toFixed(1)} />
          <text x={LEFT - 6} y={(tick.at + 4).toFixed(1)} text-anchor="end">
            {tick.label}
          </text>
        </g>
      ))}
      {across.ticks.map((tick, index) => (
        <text key={index} x={tick.at.toFixed(1)} y={HEIGHT - BOTTOM + 18} text-anchor="middle">
          {tick.label}
        </text>
      ))}
      <line class="ground" x1={LEFT} x2={WIDTH - RIGHT} y1={HEIGHT - BOTTOM} y2={HEIGHT - BOTTOM} />
    </g>
  );
}

interface Places {
  of: (value: unknown) => number | undefined;
  label?: (place: number) => string;
}

/** Numbers are where they are; dates are where their time is; texts stand side by side. */
function places(values: unknown[], named: unknown): Places {
  if (named === "datetime" || (values.length > 0 && values.every((value) => typeof value === "string" && /^\d{4}-\d\d/.test(value)))) {
    const of = (value: unknown) => (typeof value === "string" ? finite(Date.parse(value)) : undefined);
    const label = (place: number) => new Date(Math.min(Math.max(place, -LAST_DATE), LAST_DATE)).toISOString().replace(/:\d\d\.\d+Z$/, "").replace("T", " ").replace(/ 00:00$/, "");
    return { of, label };
  }
  if (values.some((value) => typeof value === "string")) {
    const words = [...new Set(values.map(shown))].slice(0, MOST_POINTS);
    const at = new Map(words.map((word, index) => [word, index]));
    return { of: (value) => at.get(shown(value)), label: (place) => words[Math.round(place)] ?? "" };
  }
  const above = named === "log" ? (value: number | undefined) => (value !== undefined && value > 0 ? value : undefined) : (value: number | undefined) => value;
  return { of: (value) => above(number(value)) };
}

function scale(values: number[], from: number, to: number, places: Places | undefined, named: unknown): Scale {
  const logarithmic = named === "log" && !places?.label && values.every((value) => value > 0);
  const put = logarithmic ? Math.log10 : (value: number) => value;
  // Not by spreading: there may be many.
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, put(value)), Math.max(high, put(value))];
  // Halves first: the difference of the largest numbers there are is no number.
  let room = high / 2 - low / 2;
  if (!(room > 0)) {
    const around = Math.abs(low) * 0.1 || 1;
    [low, high] = [low - around, high + around];
    room = high / 2 - low / 2;
  }
  const at = (value: number) => from + ((put(value) / 2 - low / 2) / room) * (to - from);
  const back = logarithmic ? (value: number) => 10 ** value : (value: number) => value;
  const values_ = ticks(low, high, places?.label ? 5 : 6, logarithmic || places?.label !== undefined);
  const label = places?.label ?? told;
  return { at, ticks: values_.map((value) => ({ at: at(back(value)), label: label(back(value)).slice(0, LONGEST) })) };
}

function ticks(low: number, high: number, wanted: number, even: boolean): number[] {
  const step = (high / 2 - low / 2) * (2 / wanted);
  if (even || !Number.isFinite(step)) return Array.from({ length: wanted + 1 }, (_, index) => low * (1 - index / wanted) + high * (index / wanted));
  const size = 10 ** Math.floor(Math.log10(step));
  const nice = [1, 2, 5, 10].map((times) => times * size).find((times) => times >= step) ?? step;
  const made: number[] = [];
  for (let value = Math.ceil(low / nice) * nice; value <= high && made.length < MOST_TICKS; value += nice) made.push(value);
  return made;
}

function told(value: number): string {
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3)) return value.toExponential(1);
  return String(Number(value.toPrecision(6)));
}

/** A single series without a name needs no legend. */
function legend(labels: (string | undefined)[]): Chart["legend"] {
  return labels.map((label, colour) => ({ label: label || `Series ${colour + 1}`, colour })).filter((_, index) => labels.length > 1 || Boolean(labels[index]));
}

function fields(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

function list(value: unknown, most: number): unknown[] {
  return Array.isArray(value) ? value.slice(0, most) : [];
}

function pairs(element: Fields): [unknown, unknown][] {
  return list(element.points, MOST_POINTS).filter((point): point is [unknown, unknown] => Array.isArray(point) && point.length >= 2);
}

function number(value: unknown): number | undefined {
  return typeof value === "number" ? finite(value) : undefined;
}

function finite(value: number): number | undefined {
  return Number.isFinite(value) ? value : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? shown(value) : undefined;
}

function shown(value: unknown): string {
  const made = typeof value === "string" ? plain(value) : typeof value === "number" ? String(value) : "";
  // eslint-disable-next-line no-control-regex
  const safe = made.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, " ");
  return safe.length > LONGEST ? `${safe.slice(0, LONGEST - 1)}…` : safe;
}
