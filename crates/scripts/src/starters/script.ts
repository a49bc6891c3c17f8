// sandbox
// volume: greetings state

import * as fs from "fs";

type Greeting = { text: string; count: number };

export async function main(name: string, count = 1): Promise<Greeting> {
  const before = fs.existsSync("state/count") ? Number(fs.readFileSync("state/count", "utf-8")) : 0;
  fs.writeFileSync("state/count", String(before + count));
  return { text: `Hello, ${name}!`, count: before + count };
}
