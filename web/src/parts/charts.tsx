// Small charts as SVG, drawn from numbers of the server's.

interface Series {
  values: number[];
  label: string;
  format: (value: number) => string;
  /** The top of the scale, where it is known. */
  most?: number;
}

const WIDTH = 320;
const HEIGHT = 72;

export function Line({ values, label, format, most }: Series) {
  const top = Math.max(most ?? 0, ...values, 1e-9);
  const step = WIDTH / Math.max(values.length - 1, 1);
  const at = (value: number, index: number) => `${(index * step).toFixed(1)},${(HEIGHT - 2 - (value / top) * (HEIGHT - 6)).toFixed(1)}`;
  // One value alone is a line as well.
  const drawn = values[0] !== undefined && values.length === 1 ? [values[0], values[0]] : values;
  const points = drawn.map(at).join(" ");
  const last = values.at(-1);
  return (
    <figure class="chart">
      <figcaption>
        <span>{label}</span>
        <strong>{last === undefined ? "–" : format(last)}</strong>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${label}, now ${last === undefined ? "unknown" : format(last)}`}>
        {drawn.length > 1 && (
          <>
            <polygon class="area" points={`0,${HEIGHT} ${points} ${WIDTH},${HEIGHT}`} />
            <polyline class="line" points={points} />
          </>
        )}
      </svg>
      <span class="scale">{format(top)}</span>
    </figure>
  );
}

export interface Bar {
  label: string;
  good: number;
  bad: number;
}

export function Bars({ bars, label, total }: { bars: Bar[]; label: string; total: string }) {
  const top = Math.max(1, ...bars.map((bar) => bar.good + bar.bad));
  const width = WIDTH / Math.max(bars.length, 1);
  const height = (value: number) => (value / top) * (HEIGHT - 4);
  return (
    <figure class="chart bars">
      <figcaption>
        <span>{label}</span>
        <strong>{total}</strong>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${total}`}>
        <line class="ground" x1="0" x2={WIDTH} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
        {bars.map((bar, index) => (
          <g key={index}>
            <title>{`${bar.label}: ${bar.good} created, ${bar.bad} failed`}</title>
            <rect class="good" x={index * width + 0.5} width={Math.max(width - 1, 1)} y={HEIGHT - height(bar.good)} height={height(bar.good)} />
            <rect class="bad" x={index * width + 0.5} width={Math.max(width - 1, 1)} y={HEIGHT - height(bar.good + bar.bad)} height={height(bar.bad)} />
          </g>
        ))}
      </svg>
      <span class="scale">{top}</span>
    </figure>
  );
}
