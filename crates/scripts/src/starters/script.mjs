// sandbox
// volume: greetings state

import * as fs from "fs";

export async function main(name, count = 1) {
  const before = fs.existsSync("state/count") ? Number(fs.readFileSync("state/count", "utf-8")) : 0;
  fs.writeFileSync("state/count", String(before + count));
  return { text: `Hello, ${name}!`, count: before + count };
}
