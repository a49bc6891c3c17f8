// One sandbox: terminal, commands, files, code and the rest.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, eventually, flow, screen, stage } from "./harness.mjs";

const the = stage();

flow(the, "a terminal runs a shell, keeps it over another tab and takes another size", async (page, server) => {
  const sandbox = await server.create();
  await page.at(`#/sandboxes/${sandbox.id}/terminal`);
  await eventually(async () => /[$#]$/m.test(await screen(page)));
  await page.keyboard.type("kept=here; echo $((6*7)); pwd");
  await page.keyboard.press("Enter");
  await eventually(async () => /^42\n\/workspace$/m.test(await screen(page)));
  let asked = 0;
  const columns = async () => {
    asked += 1;
    await page.keyboard.type(`echo size ${asked}: $(stty size)`);
    await page.keyboard.press("Enter");
    let found;
    await eventually(async () => Boolean((found = new RegExp(`^size ${asked}: \\d+ (\\d+)$`, "m").exec(await screen(page))?.[1])));
    return Number(found);
  };
  const wide = await columns();
  await page.setViewportSize({ width: 900, height: 700 });
  await eventually(async () => (await columns()) < wide);
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByRole("tab", { name: "Terminal" }).click();
  await page.locator(".state.connected").waitFor();
  await page.keyboard.type("echo $kept-again");
  await page.keyboard.press("Enter");
  await eventually(async () => /^here-again$/m.test(await screen(page)));
});

for (const width of [390, 320]) {
  flow(the, `on a phone of ${width} points the terminal is as high as its place, and stays so`, async (page, server) => {
    const sandbox = await server.create();
    let resized = 0;
    page.on("request", (request) => (resized += Number(request.url().endsWith("/resize"))));
    await page.at(`#/sandboxes/${sandbox.id}/terminal`);
    await eventually(async () => /[$#]$/m.test(await screen(page)));
    for (const word of ["one", "two", "three"]) {
      await page.keyboard.type(`echo ${word}`);
      await page.keyboard.press("Enter");
      await eventually(async () => (await screen(page)).split("\n").includes(word));
    }
    assert.ok((await page.locator(".terminal .screen").boundingBox()).height < 640);
    assert.ok(resized <= 2, `${resized} resizes`);
  }, { width, height: 640 });
}

flow(the, "a long paste arrives whole", async (page, server) => {
  const sandbox = await server.create();
  await page.at(`#/sandboxes/${sandbox.id}/terminal`);
  await eventually(async () => /[$#]$/m.test(await screen(page)));
  await page.keyboard.type("cat > /tmp/pasted");
  await page.keyboard.press("Enter");
  const text = Array.from({ length: 400 }, (_, index) => `line ${index} of the paste`).join("\n");
  await eventually(async () => (await server.exec(sandbox.id, "test -e /tmp/pasted")).exit_code, 0);
  await page.locator(".xterm-helper-textarea").evaluate((area, pasted) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", pasted);
    area.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  }, `${text}\n`);
  await page.keyboard.press("Control+d");
  await eventually(async () => (await server.exec(sandbox.id, "wc -l < /tmp/pasted")).stdout.trim(), "400");
});

flow(the, "the terminal can be left and reached by keyboard", async (page, server) => {
  const sandbox = await server.create();
  await page.at(`#/sandboxes/${sandbox.id}/terminal`);
  await page.locator(".state.connected").waitFor();
  await page.keyboard.press("Shift+Escape");
  await eventually(() => page.evaluate(() => document.activeElement.textContent), "Terminal");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await page.getByLabel("Command", { exact: true }).waitFor();
});

flow(the, "a command shows its output as it comes, and how it ended", async (page, server) => {
  const sandbox = await server.create();
  await page.at(`#/sandboxes/${sandbox.id}/commands`);
  await page.getByLabel("Command", { exact: true }).fill("echo first; echo wrong >&2; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo second; exit 3");
  await page.keyboard.press("Enter");
  const output = page.getByLabel("Output");
  await output.getByText("first").waitFor();
  assert.equal(await output.locator(".stderr").innerText(), "wrong\n");
  assert.equal(await output.getByText("second").count(), 0);
  await server.exec(sandbox.id, "touch /tmp/go");
  await output.getByText("second").waitFor();
  await page.getByLabel("Command 1").getByText("exit code 3").waitFor();
});

flow(the, "of a line that was written over, the last text is shown", async (page, server) => {
  const sandbox = await server.create();
  await server.exec(sandbox.id, "printf '10 %%\\r 50 %%\\r100 %%\\r\\nwindows\\r\\nend'");
  await page.at(`#/sandboxes/${sandbox.id}/commands`);
  await eventually(() => page.getByLabel("Output").innerText(), "100 %\nwindows\nend");
});

flow(the, "a command that runs is killed", async (page, server) => {
  const sandbox = await server.create();
  await server.ask("POST", `/v1/sandboxes/${sandbox.id}/execs`, { command: "echo up; sleep 600", background: true });
  await page.at(`#/sandboxes/${sandbox.id}/commands`);
  await page.getByLabel("Output").getByText("up").waitFor();
  await page.getByLabel("Command 1").getByRole("button", { name: "Kill" }).click();
  await page.getByLabel("Command 1").getByText("killed").waitFor();
});

flow(the, "a file is made, edited, saved and deleted", async (page, server) => {
  const sandbox = await server.create();
  await page.at(`#/sandboxes/${sandbox.id}/files`);
  await page.getByRole("button", { name: "New file" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("notes & more.txt");
  await page.getByRole("dialog").getByRole("button", { name: "Make" }).click();
  await page.getByLabel("Content").fill("a <b>line</b>\nand another");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved").waitFor();
  assert.equal((await server.exec(sandbox.id, "cat '/workspace/notes & more.txt'")).stdout, "a <b>line</b>\nand another");
  await page.getByRole("link", { name: "Close" }).click();
  await page.getByRole("row", { name: /notes & more\.txt/ }).getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Yes" }).click();
  await page.getByText("Nothing is here").waitFor();
});

/** As when the person looks at another program, and comes back. */
async function lookAway(page) {
  for (const hidden of [true, false]) {
    await page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  }
}

flow(the, "what was written in a file stays until it is saved, and overwrites nothing without a word", async (page, server) => {
  const sandbox = await server.create();
  await server.exec(sandbox.id, "echo begins > /workspace/shared.txt");
  const file = () => server.exec(sandbox.id, "cat /workspace/shared.txt").then((exec) => exec.stdout);
  await page.at(`#/sandboxes/${sandbox.id}/files?file=/workspace/shared.txt`);
  const content = page.getByLabel("Content");
  await eventually(() => content.inputValue(), "begins\n");
  await content.fill("mine\n");
  // Asked for again, the file is as it was: what was written stays.
  const again = page.waitForResponse((response) => response.url().includes("/files/content"));
  await lookAway(page);
  await again;
  await page.getByText("edited", { exact: true }).waitFor();
  assert.equal(await content.inputValue(), "mine\n");
  // Another tab and another file are looked at meanwhile.
  await page.getByRole("tab", { name: "Commands" }).click();
  await page.getByLabel("Command", { exact: true }).waitFor();
  await page.goBack();
  await eventually(() => content.inputValue(), "mine\n");
  // The agent writes.
  await server.exec(sandbox.id, "echo the agent was here > /workspace/shared.txt");
  const save = page.getByRole("button", { name: "Save", exact: true });
  await save.click();
  const dialog = page.getByRole("dialog", { name: "The file was changed" });
  await dialog.waitFor();
  await eventually(() => dialog.getByLabel("What is there now").inputValue(), "the agent was here\n");
  await dialog.getByRole("button", { name: "Go on editing" }).click();
  assert.equal(await content.inputValue(), "mine\n");
  assert.equal(await file(), "the agent was here\n");
  await save.click();
  await dialog.getByRole("button", { name: "Save mine" }).click();
  await page.getByText("Saved").waitFor();
  assert.equal(await file(), "mine\n");
  // The other choice, and the keys.
  await content.fill("mine again\n");
  await server.exec(sandbox.id, "echo the agent again > /workspace/shared.txt");
  await lookAway(page);
  await page.getByText("The file was changed after you began to edit it").waitFor();
  await content.press("Control+s");
  await dialog.getByRole("button", { name: "Take what is there now" }).click();
  await eventually(() => content.inputValue(), "the agent again\n");
  await eventually(() => save.isDisabled());
  await content.fill("by keys\n");
  await content.press("Control+s");
  await eventually(file, "by keys\n");
  await eventually(() => save.isDisabled());
});

flow(the, "a file that was deleted meanwhile is told, and its lines end as they did", async (page, server) => {
  const sandbox = await server.create();
  await server.exec(sandbox.id, "printf 'one\\r\\ntwo\\r\\n' > /workspace/dos.txt");
  await page.at(`#/sandboxes/${sandbox.id}/files?file=/workspace/dos.txt`);
  const content = page.getByLabel("Content");
  await eventually(() => content.inputValue(), "one\ntwo\n");
  await content.fill("one\n2\n");
  await server.exec(sandbox.id, "rm /workspace/dos.txt");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("dialog", { name: "The file was deleted" }).getByRole("button", { name: "Save mine" }).click();
  await page.getByText("Saved").waitFor();
  assert.equal((await server.exec(sandbox.id, "od -An -c /workspace/dos.txt | tr -d ' \\n'")).stdout, "one\\r\\n2\\r\\n");
});

flow(the, "files are uploaded and downloaded, byte for byte", async (page, server) => {
  const sandbox = await server.create();
  const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, index) => (index * 7919) & 255));
  await page.at(`#/sandboxes/${sandbox.id}/files`);
  await page.getByLabel("Files to upload").setInputFiles({ name: "data.bin", mimeType: "application/octet-stream", buffer: bytes });
  const row = page.getByRole("row", { name: /data\.bin/ });
  await row.getByText("97.7 KiB").waitFor();
  const waiting = page.waitForEvent("download");
  await row.getByRole("button", { name: "Download" }).click();
  const stream = await (await waiting).createReadStream();
  const parts = [];
  for await (const part of stream) parts.push(part);
  assert.ok(Buffer.concat(parts).equals(bytes));
  await page.getByRole("link", { name: "data.bin" }).click();
  await page.getByText("This is no text").waitFor();
});

flow(the, "directories are walked, and a picture is shown", async (page, server) => {
  const sandbox = await server.create();
  const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  await server.exec(sandbox.id, `mkdir -p /workspace/deep/er && echo ${png} | base64 -d > /workspace/deep/er/dot.png`);
  await page.at(`#/sandboxes/${sandbox.id}/files`);
  await page.getByRole("link", { name: "deep" }).click();
  await page.getByRole("link", { name: "er/", exact: true }).click();
  await page.getByRole("link", { name: "dot.png" }).click();
  await eventually(() => page.locator("img.picture").evaluate((one) => one.naturalWidth), 1);
  await page.getByRole("navigation", { name: "Path" }).getByRole("link", { name: "deep" }).click();
  await page.getByRole("link", { name: "er/", exact: true }).waitFor();
});

flow(the, "code remembers, and shows tables, pictures and errors", async (page, server) => {
  const sandbox = await server.create({ template: "code-interpreter" });
  await page.at(`#/sandboxes/${sandbox.id}/code`);
  const code = page.getByLabel("Code", { exact: true });
  const run = async (text) => {
    await code.fill(text);
    await code.press("Control+Enter");
  };
  await run("x = 20\nprint('printed')");
  await page.getByRole("article").first().getByText("printed").waitFor();
  await run("x * 2 + 2");
  await page.getByRole("article").first().getByText("42", { exact: true }).waitFor();
  await run("class P:\n  def _repr_png_(self):\n    import base64\n    return base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')\nP()");
  await eventually(() => page.getByRole("article").first().locator("img").evaluate((one) => one.naturalWidth).catch(() => 0), 1);
  await run("1/0");
  await page.getByRole("article").first().getByText(/ZeroDivisionError: division by zero/).first().waitFor();
  // The trace stands there once, however it came: as what was printed, and as the error.
  await page.getByRole("article").first().locator("footer").getByText("exit code 1").waitFor();
  const shown = await page.getByRole("article").first().innerText();
  assert.equal(shown.split("ZeroDivisionError: division by zero").length, 2, shown);
});

flow(the, "a data frame is a table", async (page, server, skip) => {
  const sandbox = await server.create({ template: "code-interpreter" });
  await page.at(`#/sandboxes/${sandbox.id}/code`);
  await page.getByLabel("Code", { exact: true }).fill("import pandas as pd\npd.DataFrame({'name': ['<i>a</i>', 'b'], 'count': [1, 22]})");
  await page.getByRole("button", { name: "Run" }).click();
  const table = page.getByRole("table", { name: "Table" });
  const missing = page.getByText("No module named 'pandas'");
  await table.or(missing).first().waitFor();
  if (await missing.count()) return skip("the host has no pandas");
  await table.getByText("<i>a</i>").waitFor();
  await table.getByText("22", { exact: true }).waitFor();
});

flow(the, "what is denied shows as it happens, and a button writes the rule", async (page, server) => {
  const sandbox = await server.create({ network: { allow: ["first.example"] } });
  await page.at(`#/sandboxes/${sandbox.id}/network`);
  await page.getByText("Nothing was tried yet").waitFor();
  await server.exec(sandbox.id, "curl -sS -m 5 http://second.example:8080/ || true");
  const row = page.getByRole("row", { name: /second\.example:8080/ }).first();
  await row.getByText("denied").waitFor();
  await row.getByRole("button", { name: "Allow" }).click();
  await eventually(async () => {
    const { rules } = await server.ask("GET", `/v1/sandboxes/${sandbox.id}/network`);
    return rules.allow.map(String);
  }, ["first.example", "second.example:8080"]);
  await page.getByRole("listitem").filter({ hasText: "first.example" }).getByRole("button", { name: "Remove" }).click();
  await eventually(async () => (await server.ask("GET", `/v1/sandboxes/${sandbox.id}/network`)).rules.allow.map(String), ["second.example:8080"]);
});

flow(the, "the lists of a busy sandbox are asked for a few times, however much happens", async (page, server) => {
  const sandbox = await server.create();
  const one = `/v1/sandboxes/${sandbox.id}`;
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  for (const [tab, path, ready] of [["forks", "/v1/sandboxes", page.getByRole("tree")], ["timeline", `${one}/audit`, page.getByRole("button", { name: /created/ })], ["commands", `${one}/execs`, page.getByLabel("Command", { exact: true })]]) {
    await page.at(`#/sandboxes/${sandbox.id}/${tab}`);
    await ready.waitFor();
    await eventually(() => asked.includes(path));
    asked.length = 0;
    const began = Date.now();
    for (let number = 0; number < 40; number += 1) await server.exec(sandbox.id, `sleep 0.1; echo ${number}`);
    const seconds = (Date.now() - began) / 1000;
    const lists = asked.filter((found) => found === path).length;
    // Of the tree nothing changed; the others follow, at most every three seconds and every second.
    const most = { forks: 0, timeline: seconds / 3 + 2, commands: seconds + 2 }[tab];
    assert.ok(lists <= most, `${tab}: ${lists} lists in ${seconds} s`);
  }
});

flow(the, "changes are shown side by side", async (page, server) => {
  const base = await server.create();
  await server.exec(base.id, "cd /workspace && printf 'one\\ntwo\\nthree\\n' > kept.txt && echo gone > gone.txt");
  const { sandboxes } = await server.ask("POST", `/v1/sandboxes/${base.id}/fork`, {});
  await server.exec(sandboxes[0].id, "cd /workspace && sed -i 's/two/<b>2<\\/b>/' kept.txt && rm gone.txt && echo new > new.txt");
  await page.at(`#/sandboxes/${sandboxes[0].id}/changes`);
  await page.getByText("3 changed since its beginning").waitFor();
  const table = page.getByRole("table", { name: /kept\.txt/ });
  const row = table.getByRole("row").filter({ hasText: "<b>2</b>" });
  assert.equal(await row.locator(".deleted").innerText(), "two");
  assert.equal(await row.locator(".added").innerText(), "<b>2</b>");
  await page.getByRole("button", { name: /gone\.txt/ }).click();
  await page.getByRole("table", { name: /gone\.txt/ }).waitFor();
  assert.equal(await page.getByRole("table", { name: /kept\.txt/ }).count(), 0);
});

flow(the, "a change of a file with any name is shown side by side", async (page, server) => {
  const base = await server.create();
  const names = ['say "hi".txt', 'ends with "', "back\\slash.txt", "two\nlines.txt", "bell\u0007.txt", 'é "ü" \u{1f600}.txt', "plain é.txt", "a b/c b/d.txt", 'b/ b/"b/ b', " b"];
  const put = async (sandbox, text) => {
    for (const name of names) {
      const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/octet-stream" };
      const answer = await fetch(`${server.url}/v1/sandboxes/${sandbox}/files/content?${new URLSearchParams({ path: `/workspace/${name}`, parents: "true" })}`, { method: "PUT", headers, body: `same\n${text} of ${JSON.stringify(name)}\n` });
      assert.ok(answer.ok, await answer.text());
    }
  };
  await put(base.id, "before");
  const fork = (await server.ask("POST", `/v1/sandboxes/${base.id}/fork`, {})).sandboxes[0];
  await put(fork.id, "after");
  await page.at(`#/sandboxes/${fork.id}/changes`);
  await page.getByText(`${names.length} changed since its beginning`).waitFor();
  for (const name of names) {
    // Characters that would break the line are shown as one sign each.
    const shown = `/workspace/${name}`.replace(/[\u0000-\u001f]/g, "\ufffd");
    const choice = page.getByRole("list", { name: "Changed paths" }).getByRole("button").filter({ has: page.locator("code").getByText(shown, { exact: true }) });
    await choice.click();
    const row = page.locator("table.patch").getByRole("row").filter({ hasText: `after of ${JSON.stringify(name)}` });
    await row.waitFor();
    assert.equal(await page.locator("table.patch").count(), 1, shown);
    assert.equal(await row.locator(".deleted").innerText(), `before of ${JSON.stringify(name)}`);
    assert.equal(await page.locator(".detail h2 code").innerText(), shown);
    await choice.click();
  }
});

flow(the, "the tree of forks is shown, and a fork is merged", async (page, server) => {
  const base = await server.create({ name: "trunk" });
  const first = (await server.ask("POST", `/v1/sandboxes/${base.id}/fork`, {})).sandboxes[0];
  const second = (await server.ask("POST", `/v1/sandboxes/${first.id}/fork`, {})).sandboxes[0];
  await server.exec(first.id, "echo merged > /workspace/from-the-fork");
  await page.at(`#/sandboxes/${second.id}/forks`);
  const tree = page.getByRole("tree");
  await tree.getByRole("link", { name: "trunk" }).waitFor();
  await eventually(() => tree.getByRole("treeitem").count(), 3);
  await tree.locator(".leaf").filter({ has: page.getByRole("link", { name: first.id }) }).getByRole("button", { name: "Merge into parent" }).click();
  await page.getByText("1 paths merged").waitFor();
  assert.equal((await server.exec(base.id, "cat /workspace/from-the-fork")).stdout, "merged\n");
});

flow(the, "a merge with a conflict merges nothing, and says why", async (page, server) => {
  const base = await server.create();
  await server.exec(base.id, "echo one > /workspace/both");
  const fork = (await server.ask("POST", `/v1/sandboxes/${base.id}/fork`, {})).sandboxes[0];
  await server.exec(base.id, "echo two > /workspace/both");
  await server.exec(fork.id, "echo three > /workspace/both");
  await page.at(`#/sandboxes/${fork.id}/forks`);
  await page.getByRole("button", { name: "Merge into parent" }).click();
  await page.getByText(/nothing was merged/).waitFor();
  await page.getByText(/\/workspace\/both/).waitFor();
});

flow(the, "the timeline has what was done, line by line", async (page, server) => {
  const sandbox = await server.create();
  await server.exec(sandbox.id, "echo told");
  await page.at(`#/sandboxes/${sandbox.id}/timeline`);
  const line = page.getByRole("button", { name: /echo told/ });
  await line.click();
  await page.getByText(/"signature":/).waitFor();
  await page.getByText(/"previous":/).waitFor();
});

flow(the, "a timeline that was changed says at which line", async (page, server) => {
  const sandbox = await server.create();
  await server.exec(sandbox.id, "echo told");
  await page.at(`#/sandboxes/${sandbox.id}/timeline`);
  await page.getByRole("button", { name: /echo told/ }).waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  const file = join(server.environment.PADDOCK_STATE_DIR, "audit", `${sandbox.id}.jsonl`);
  const text = readFileSync(file, "utf8");
  const line = text.slice(0, text.indexOf("echo told")).split("\n").length;
  writeFileSync(file, text.replace("echo told", "echo lied"));
  await page.reload();
  await page.getByRole("alert").getByText(`This timeline is not as it was written: line ${line}: its hash`).waitFor();
  await page.getByRole("button", { name: /echo lied/ }).waitFor();
  // A line that is no JSON any more hides none of those before it.
  writeFileSync(file, text.replace(/\n(?=[^\n]*echo told)/, "\nno json "));
  await page.reload();
  await page.getByRole("alert").getByText(`This timeline is not as it was written: line ${line}: `).waitFor();
  await page.getByRole("button", { name: /created/ }).waitFor();
  writeFileSync(file, text);
  await page.reload();
  await page.getByRole("button", { name: /echo told/ }).waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
});

flow(the, "memory, processor and guarantees are shown in words", async (page, server) => {
  const sandbox = await server.create({ limits: { memory_bytes: 256 << 20 } });
  await server.exec(sandbox.id, "true");
  await page.at(`#/sandboxes/${sandbox.id}/usage`);
  await page.getByText(/of 256 MiB/).waitFor();
  await page.getByRole("tab", { name: "Guarantees" }).click();
  await page.getByText("held by the kernel").first().waitFor();
  await page.getByText("Kernel boundary").waitFor();
});

flow(the, "a sandbox that ended says how, and what is left of it", async (page, server) => {
  const sandbox = await server.create();
  await server.exec(sandbox.id, "printf '\\033[?2004h\\033[1mits last words\\033[0m\\n'");
  await server.ask("DELETE", `/v1/sandboxes/${sandbox.id}`);
  await page.at(`#/sandboxes/${sandbox.id}`);
  await page.getByText("its last words").waitFor();
  assert.equal((await page.locator("pre.output").textContent()).trim(), "its last words");
  await page.getByText("Lived for").waitFor();
  assert.equal(await page.getByText("Time to live ends").count(), 0);
  await page.getByRole("tab", { name: "Network" }).click();
  await page.getByText("nothing leaves it any more").waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  await page.getByRole("tab", { name: "Terminal" }).click();
  await page.getByText("no command runs in it any more").waitFor();
  await page.getByRole("tab", { name: "Commands" }).click();
  await page.getByLabel("Output").getByText("its last words").waitFor();
});
