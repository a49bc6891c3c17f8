// Jobs with their tasks, and what a task prints.

import { useRef, useState } from "preact/hooks";
import { type Schema, get, path, query, send } from "../api";
import { name } from "../format";
import { useLive } from "../live";
import { Action, Card, Empty, Facts, Problem, State, Table, Waiting, When } from "../parts/basics";
import { to } from "../route";
import { Output, useTaskOutput } from "../sandbox/output";

type Job = Schema["Job"];

const OFTEN_MS = 3000;
const OVER = ["succeeded", "failed", "cancelled"];

export function Jobs({ id }: { id?: string }) {
  const live = useLive((signal) => get<Schema["JobPage"]>(`/v1/jobs${query({ limit: 200 })}`, signal), [], { everyMs: 4000 });
  return (
    <div class="page">
      <h1>Jobs</h1>
      <Problem error={live.error} retry={live.reload} />
      {!live.data && !live.error && <Waiting what="Loading" />}
      {id && <One key={id} id={id} changed={live.reload} />}
      {live.data?.jobs.length === 0 && (
        <Empty>
          There is no job. <code>paddock job submit job.toml</code> sends one.
        </Empty>
      )}
      {live.data && live.data.jobs.length > 0 && (
        <Table label="Jobs" head={["Job", "State", "Tasks", "Sent", "Why"]}>
          {live.data.jobs.map((job) => (
            <tr key={job.id}>
              <td>
                <a href={to("jobs", job.id)}>{name(job.name ?? job.id)}</a>
              </td>
              <td>
                <State state={job.state} />
              </td>
              <td>{counts(job)}</td>
              <td>
                <When ms={job.created_at_ms} />
              </td>
              <td class="quiet">{name(job.reason ?? "")}</td>
            </tr>
          ))}
        </Table>
      )}
    </div>
  );
}

function counts(job: Job): string {
  return Object.entries(job.tasks)
    .filter(([, count]) => Number(count) > 0)
    .map(([state, count]) => `${count} ${state}`)
    .join(", ");
}

function One({ id, changed }: { id: string; changed: () => void }) {
  const job = useLive((signal) => get<Job>(path`/v1/jobs/${id}`, signal), [id], { everyMs: OFTEN_MS });
  const over = job.data !== undefined && OVER.includes(job.data.state);
  const settled = useRef(false);
  const tasks = useLive((signal) => get<Schema["JobTaskPage"]>(path`/v1/jobs/${id}/tasks` + query({ limit: 200 }), signal), [id], {
    everyMs: settled.current ? undefined : OFTEN_MS,
  });
  settled.current = over && tasks.data?.tasks.every((one) => OVER.includes(one.state)) === true;
  const [task, setTask] = useState<number>();
  return (
    <Card
      title={name(job.data?.name ?? id)}
      wide
      extra={
        <span class="buttons">
          {job.data && !over && (
            <Action kind="danger" sure="Its running tasks are killed." run={() => send("POST", path`/v1/jobs/${id}/cancel`).then(changed)}>
              Cancel
            </Action>
          )}
          <a href="#/jobs">Close</a>
        </span>
      }
    >
      <Problem error={job.error ?? tasks.error} />
      {job.data && (
        <Facts
          facts={[
            ["State", <State state={job.data.state} />],
            ["Tasks", counts(job.data)],
            ["Sent", <When ms={job.data.created_at_ms} />],
            ["Why", name(job.data.reason ?? "–")],
          ]}
        />
      )}
      {tasks.data && (
        <Table label="Tasks" head={["Task", "State", "Attempts", ""]}>
          {tasks.data.tasks.map((one) => (
            <tr key={one.index}>
              <td class="number">{one.index}</td>
              <td>
                <State state={one.state} />
              </td>
              <td>
                {one.attempts.map((attempt) => (attempt.sandbox ? <a key={attempt.attempt} class="chip" href={to("sandboxes", attempt.sandbox)}>{attempt.attempt}</a> : null))}
              </td>
              <td class="actions">
                <button aria-expanded={task === one.index} onClick={() => setTask(task === one.index ? undefined : one.index)}>
                  Output
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {task !== undefined && <Logs key={task} job={id} task={task} over={over || OVER.includes(tasks.data?.tasks.find((one) => one.index === task)?.state ?? "")} />}
    </Card>
  );
}

function Logs({ job, task, over }: { job: string; task: number; over: boolean }) {
  const { collected, error } = useTaskOutput(job, task);
  if (error) return <Problem error={error} />;
  if (collected.pieces.length) return <Output collected={collected} />;
  return over ? <Empty>It printed nothing.</Empty> : <Waiting what="It has printed nothing yet" />;
}
