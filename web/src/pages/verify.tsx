// The last `paddock verify` of the server's host: what was held, and what was not. The page never runs it.

import { useState } from "preact/hooks";
import { Failure, type Schema, get } from "../api";
import { length, moment, name } from "../format";
import { useLive } from "../live";
import { Card, Empty, Facts, Problem, Table, Waiting, When } from "../parts/basics";

type Result = Schema["VerifyResult"];
type Row = Schema["VerifyRow"];
type Attack = Schema["VerifyAttack"];

const EVERY_MS = 30_000;
const MOST_SHOWN = 300;
const VERDICTS = [
  ["failed", "not held"],
  ["not_applicable", "not applicable"],
  ["held", "held"],
] as const;

export function Verify() {
  const live = useLive((signal) => get<Schema["VerifyResults"]>("/v1/verify", signal), [], { everyMs: EVERY_MS });
  const forbidden = live.error instanceof Failure && live.error.status === 403;
  return (
    <div class="page">
      <h1>Verify</h1>
      {forbidden ? (
        <p class="note">
          The results of verify are for the owner of the host: an admin token of the tenant <code>owner</code>, or <code>paddock ui</code>.
        </p>
      ) : (
        <Problem error={live.error} retry={live.reload} />
      )}
      {!live.data && !live.error && <Waiting what="Loading" />}
      {live.data?.results.length === 0 && (
        <Empty>
          This host was never verified with the state directory of this server. <code>sudo paddock verify</code> carries out the attacks and keeps what it found; this
          page shows it, and runs nothing.
        </Empty>
      )}
      <div class="stack">
        {live.data?.results.map((result) => <OneResult key={`${result.backend}-${result.only?.length ?? 0}`} result={result} />)}
      </div>
    </div>
  );
}

function OneResult({ result }: { result: Result }) {
  const only = result.only ?? [];
  const letters = [...new Set(result.rows.flatMap((row) => row.attacks.map((attack) => attack.id.slice(0, 1))))].sort();
  const failed = result.rows.flatMap((row) => row.attacks).filter((attack) => attack.verdict === "failed").length;
  const verdict = !result.rows.length ? "not run" : result.held ? "every attack was held" : failed ? `${failed} not held` : "something was left behind";
  const tone = !result.rows.length ? "closed" : result.held ? "allowed" : "denied";
  return (
    <Card
      wide
      title={only.length ? `${name(result.backend)}, only ${name(only.join(", "))}` : name(result.backend)}
      extra={<span class={`verdict ${tone}`}>{verdict}</span>}
    >
      <Facts
        facts={[
          ["Ended", <span title={moment(result.at_ms)}><When ms={result.at_ms} /></span>],
          ["Took", length(Math.round(result.seconds))],
          ["Paddock", name(result.version)],
          ["Kernel", name(result.kernel ?? "unknown")],
        ]}
      />
      {result.rows.length > 0 && (
        <Table label={`Verify of ${result.backend}`} head={["Held / not held / not applicable", ...letters.map((letter) => `${letter} ${result.groups[letter] ?? (letter === "Z" ? "the host afterwards" : "")}`)]}>
          {result.rows.map((row) => (
            <tr key={`${row.engine}-${row.user}`}>
              <td>
                {name(row.engine)}, as {name(row.user)}
              </td>
              {letters.map((letter) => (
                <Counts key={letter} row={row} letter={letter} />
              ))}
            </tr>
          ))}
        </Table>
      )}
      {result.not_run?.map((lack, index) => (
        <p key={index} class="quiet">
          {name(lack.engine)}: not run: {name(lack.reason)}
        </p>
      ))}
      {result.left_behind?.map((left, index) => (
        <p key={index} class="bad">
          Left behind: {name(left)}
        </p>
      ))}
      {result.rows.length > 0 && <Attacks result={result} />}
    </Card>
  );
}

function Counts({ row, letter }: { row: Row; letter: string }) {
  const count = (verdict: Attack["verdict"]) => row.attacks.filter((attack) => attack.id.startsWith(letter) && attack.verdict === verdict).length;
  const failed = count("failed");
  return <td class={failed ? "bad" : ""}>{`${count("held")} / ${failed} / ${count("not_applicable")}`}</td>;
}

function Attacks({ result }: { result: Result }) {
  const [wanted, setWanted] = useState<Attack["verdict"]>("failed");
  const found = result.rows.flatMap((row) => row.attacks.filter((attack) => attack.verdict === wanted).map((attack) => ({ row, attack })));
  return (
    <>
      <div class="bar">
        <select aria-label={`Attacks of ${result.backend}`} value={wanted} onChange={(event) => setWanted(event.currentTarget.value as Attack["verdict"])}>
          {VERDICTS.map(([verdict, label]) => (
            <option key={verdict} value={verdict}>
              {label}
            </option>
          ))}
        </select>
        <span class="quiet">{found.length > MOST_SHOWN ? `${MOST_SHOWN} of ${found.length}` : found.length}</span>
      </div>
      {found.length === 0 && <Empty>None.</Empty>}
      {found.length > 0 && (
        <Table label={`Attacks of ${result.backend} that were ${VERDICTS.find(([verdict]) => verdict === wanted)?.[1]}`} head={["Attack", "It", "As", "Why"]}>
          {found.slice(0, MOST_SHOWN).map(({ row, attack }, index) => (
            <tr key={index}>
              <td class="mono">{name(attack.id)}</td>
              <td>{name(attack.title)}</td>
              <td>
                {name(row.engine)}, {name(row.user)}
              </td>
              <td class={attack.verdict === "failed" ? "bad" : "quiet"}>{name(attack.detail ?? "")}</td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}
