// Memory, processor and disk of a sandbox over the last minutes.

import { type Schema, get, path } from "../api";
import { bytes, length, millis } from "../format";
import { useLive } from "../live";
import { Card, Empty, Facts, Problem, Waiting } from "../parts/basics";
import { Line } from "../parts/charts";

export function Usage({ sandbox }: { sandbox: Schema["Sandbox"] }) {
  const lives = sandbox.state !== "ended";
  const metrics = useLive(
    async (signal) => (lives ? get<Schema["SandboxMetrics"]>(path`/v1/sandboxes/${sandbox.id}/metrics`, signal) : undefined),
    [sandbox.id, lives],
    { everyMs: 5000 },
  );
  const usage = useLive(
    async (signal) => (lives ? get<Schema["SandboxUsage"]>(path`/v1/sandboxes/${sandbox.id}/usage`, signal) : sandbox.end?.usage),
    [sandbox.id, lives],
    { everyMs: 5000 },
  );
  const limits = sandbox.limits as { memory?: number };
  const samples = metrics.data?.samples ?? [];
  const first = samples[0];
  return (
    <div class="grid">
      {lives && (
        <Card title="Over time" wide extra={first && <span class="quiet">the last {length(Math.round((Date.now() - first.at_ms) / 1000))}</span>}>
          <Problem error={metrics.error} retry={metrics.reload} />
          {!metrics.data && !metrics.error && <Waiting what="Loading" />}
          {metrics.data && samples.length === 0 && <Empty>No samples yet: a sandbox that nobody uses has none.</Empty>}
          {samples.length > 0 && (
            <>
              <Line values={samples.map((one) => one.cpu_percent)} label="Processor, of one" format={(value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} %`} most={100} />
              <Line values={samples.map((one) => one.memory_bytes)} label="Memory" format={bytes} most={limits.memory} />
              <Line values={samples.map((one) => one.disk_bytes)} label="Disk" format={bytes} />
            </>
          )}
        </Card>
      )}
      <Card title={lives ? "Now" : "In all"}>
        <Problem error={usage.error} />
        {usage.data && (
          <Facts
            facts={[
              ["Processor time", millis(usage.data.cpu_ms ?? undefined)],
              ["Memory", `${bytes(usage.data.memory_bytes)} of ${bytes(limits.memory)}`],
              ["Memory at its most", bytes(usage.data.peak_memory_bytes)],
              ["Disk", bytes(usage.data.disk_bytes)],
              ["Processes", usage.data.processes ?? "–"],
            ]}
          />
        )}
      </Card>
    </div>
  );
}
