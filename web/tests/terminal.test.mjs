// The terminal answers no question that a program inside prints: an answer would be typed into the shell, as if the person had.

import { join } from "node:path";
import { test } from "node:test";
import { LIMIT, ROOT, assert, eventually, flow, screen, stage } from "./harness.mjs";

const the = stage();
const ESC = "\u001b";

/** Questions that xterm.js answers by itself, each with what it asks. */
const ANSWERED = {
  "what it is (DA1)": `${ESC}[c`,
  "what it is, with a zero": `${ESC}[0c`,
  "its version (DA2)": `${ESC}[>c`,
  "its state (DSR)": `${ESC}[5n`,
  "the cursor's place (CPR)": `${ESC}[6n`,
  "the cursor's place on its page (DECXCPR)": `${ESC}[?6n`,
  "a mode (DECRQM)": `${ESC}[4$p`,
  "a private mode (DECRQM)": `${ESC}[?2004$p`,
  "a setting (DECRQSS)": `${ESC}P$qm${ESC}\\`,
  "the margins (DECRQSS)": `${ESC}P$qr${ESC}\\`,
  "the text's colour (OSC 10)": `${ESC}]10;?\u0007`,
  "the ground's colour (OSC 11)": `${ESC}]11;?${ESC}\\`,
  "the cursor's colour (OSC 12)": `${ESC}]12;?\u0007`,
  "a colour of the palette (OSC 4)": `${ESC}]4;1;?\u0007`,
  "two colours at once": `${ESC}]10;?;?\u0007`,
  "the focus (mode 1004)": `${ESC}[?1004h`,
  "the focus, among other modes": `${ESC}[?25;1004h`,
};
/** Those that other terminals answer, or that another version might. */
const OTHERS = {
  "the window's title": `${ESC}[21t`,
  "the window's size": `${ESC}[14t${ESC}[16t${ESC}[18t`,
  "the answerback (ENQ)": "\u0005",
  "parameters (DECREQTPARM)": `${ESC}[x${ESC}[1x`,
  "its unit (DA3)": `${ESC}[=c`,
  "what it is, as a VT52 was asked (DECID)": `${ESC}Z`,
  "its version (XTVERSION)": `${ESC}[>q`,
  "the form of its keys": `${ESC}[?u`,
  "what it can do (XTGETTCAP)": `${ESC}P+q544e${ESC}\\`,
  "the clipboard (OSC 52)": `${ESC}]52;c;?\u0007`,
};

/** To the last cell of the screen, and all above is erased. */
const LAST_CELL = `${ESC}[999;999H${ESC}[1J`;

/** Every form of sequence with numbers that ask for something: each prefix, intermediate and final byte. */
function everything() {
  const numbers = ["", "0", "1", "5", "6", "14", "15", "16", "18", "20", "21", "26", "53", "1004", "2004"];
  const finals = Array.from({ length: 0x7f - 0x40 }, (_, index) => String.fromCharCode(0x40 + index));
  const parts = [];
  for (const prefix of ["", "<", "=", ">", "?"]) {
    for (const middle of ["", " ", "!", '"', "#", "$", "'", "*", "+"]) {
      for (const final of finals) {
        for (const number of numbers) parts.push(`${ESC}[${prefix}${number}${middle}${final}`);
        for (const asked of ["", "m", "r", " q", '"q', '"p', "544e"]) parts.push(`${ESC}P${prefix}${middle}${final}${asked}${ESC}\\`);
      }
    }
  }
  for (let number = 0; number <= 2000; number += 1) parts.push(`${ESC}]${number};?\u0007${ESC}]${number};1;?\u0007${ESC}]${number};c;?\u0007`);
  // CAN, SUB and ESC begin something else; the rest of the control characters are tried, and every escape of two characters.
  for (let code = 0; code < 0xa0; code += 1) if (code < 0x18 || (code > 0x1b && code < 0x20) || (code > 0x7f && ![0x90, 0x98, 0x9b, 0x9d, 0x9e, 0x9f].includes(code))) parts.push(String.fromCharCode(code));
  for (let code = 0x30; code < 0x7f; code += 1) if (!"P]X^_[".includes(String.fromCharCode(code))) parts.push(`${ESC}${String.fromCharCode(code)}`);
  return parts.join("");
}

const QUESTIONS = { ...ANSWERED, ...OTHERS, "every form of sequence": everything() };

// Prints one question after the other, and keeps what it gets to read before the END that the test types each time.
const ASKS = `import json, os, tty
asked = json.load(open("/workspace/asked.json"))
tty.setraw(0)
typed = []
for number, question in enumerate(asked):
    os.write(1, b"\\x1bc")
    text = question.encode()
    while text:
        text = text[os.write(1, text):]
    os.write(1, b"\\x18\\x1bc" + f"asked {number}\\r\\n".encode())
    got = b""
    while not got.endswith(b"END"):
        got += os.read(0, 4096)
    typed.append(got[:-3].decode(errors="replace"))
json.dump(typed, open("/workspace/typed.part", "w"))
os.rename("/workspace/typed.part", "/workspace/typed.json")
`;

async function put(server, sandbox, path, body) {
  const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/octet-stream" };
  const answer = await fetch(`${server.url}/v1/sandboxes/${sandbox}/files/content?path=${path}`, { method: "PUT", headers, body });
  assert.ok(answer.ok, await answer.text());
}

flow(the, "no question that a program prints is answered, so nothing is typed that the person did not type", async (page, server) => {
  const sandbox = await server.create();
  await put(server, sandbox.id, "/workspace/asked.json", JSON.stringify(Object.values(QUESTIONS)));
  await put(server, sandbox.id, "/workspace/asks.py", ASKS);
  await page.at(`#/sandboxes/${sandbox.id}/terminal`);
  await page.locator(".state.connected").waitFor();
  await eventually(async () => /[$#]$/m.test(await screen(page)));
  await page.keyboard.type("exec python3 asks.py");
  await page.keyboard.press("Enter");
  for (const number of Object.keys(Object.keys(QUESTIONS))) {
    await eventually(async () => new RegExp(`^asked ${number}$`, "m").test(await screen(page)));
    // The page loses the focus and gets it back, as when the person looks elsewhere: that is told to nobody.
    await page.locator(".xterm-helper-textarea").evaluate((area) => {
      area.blur();
      area.focus();
    });
    await page.keyboard.type("END");
  }
  await page.locator(".state.ended").waitFor();
  const { stdout } = await server.exec(sandbox.id, "cat typed.json");
  const typed = Object.fromEntries(Object.keys(QUESTIONS).map((what, number) => [what, JSON.parse(stdout)[number]]));
  assert.deepEqual(typed, Object.fromEntries(Object.keys(QUESTIONS).map((what) => [what, ""])));
});

flow(the, "a terminal that is opened again shows its questions again, and answers none", async (page, server) => {
  const sandbox = await server.create();
  await page.at(`#/sandboxes/${sandbox.id}/terminal`);
  await page.locator(".state.connected").waitFor();
  await eventually(async () => /[$#]$/m.test(await screen(page)));
  await page.keyboard.type("printf '\\033[6n\\033[c\\033]11;?\\007'; echo \"a\"sked");
  await page.keyboard.press("Enter");
  await eventually(async () => /^asked$/m.test(await screen(page)));
  const sent = [];
  page.on("request", (request) => request.url().includes("/stdin") && sent.push(request.postData()));
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByRole("button", { name: "New file" }).waitFor();
  await page.getByRole("tab", { name: "Terminal" }).click();
  await eventually(async () => /^asked\n.*[$#]$/m.test(await screen(page)));
  await page.keyboard.type("x");
  await eventually(() => sent, ["x"]);
});

/** What the shell's file holds, once it holds so much. */
async function arrived(server, sandbox, file, length) {
  const text = async () => (await server.exec(sandbox.id, `cat ${file} 2>/dev/null || true`)).stdout;
  await eventually(async () => (await text()).length >= length);
  return text();
}

flow(the, "what is typed arrives once and in order, over a connection that breaks before and behind it", async (page, server) => {
  const sandbox = await server.create();
  await page.at(`#/sandboxes/${sandbox.id}/terminal`);
  await page.locator(".state.connected").waitFor();
  await eventually(async () => /[$#]$/m.test(await screen(page)));
  await page.keyboard.type("stty -echo; exec cat > typed");
  await page.keyboard.press("Enter");
  await eventually(async () => (await server.exec(sandbox.id, "test -e typed")).exit_code, 0);
  const fates = ["never sent", "its answer is lost", "never sent", "never sent", "its answer is lost"];
  await page.route(/\/stdin/, async (route) => {
    const fate = fates.shift();
    if (fate === undefined) return route.continue();
    if (fate === "its answer is lost") await route.fetch();
    await route.abort();
  });
  for (const word of ["first", "second", "third"]) {
    await page.keyboard.type(word);
    await page.keyboard.press("Enter");
  }
  // A look at another tab loses nothing either.
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByRole("button", { name: "New file" }).waitFor();
  await eventually(() => fates.length, 0);
  assert.equal(await arrived(server, sandbox, "typed", 19), "first\nsecond\nthird\n");
  await page.getByRole("tab", { name: "Terminal" }).click();
  await page.locator(".state.connected").waitFor();
  await page.keyboard.type("fourth");
  await page.keyboard.press("Enter");
  assert.equal(await arrived(server, sandbox, "typed", 26), "first\nsecond\nthird\nfourth\n");
});

flow(the, "a paste of two megabytes arrives whole, and one that is too large says so", async (page, server) => {
  const sandbox = await server.create();
  await page.at(`#/sandboxes/${sandbox.id}/terminal`);
  await page.locator(".state.connected").waitFor();
  await eventually(async () => /[$#]$/m.test(await screen(page)));
  await page.keyboard.type("stty -echo; exec cat > pasted");
  await page.keyboard.press("Enter");
  await eventually(async () => (await server.exec(sandbox.id, "test -e pasted")).exit_code, 0);
  const paste = (lines) =>
    page.locator(".xterm-helper-textarea").evaluate((area, lines) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", Array.from({ length: lines }, (_, index) => `${String(index).padStart(9, "0")} \u{1f600} of the long paste\n`).join(""));
      area.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    }, lines);
  await paste(700_000);
  await page.getByText(/^Not pasted: /).waitFor();
  const LINES = 65_536;
  await paste(LINES);
  await eventually(async () => (await server.exec(sandbox.id, "wc -l < pasted")).stdout.trim(), String(LINES));
  assert.equal((await server.exec(sandbox.id, `awk '$1 != NR - 1 || $2 != "\u{1f600}" || NF != 6' pasted | head -3`)).stdout, "");
});

flow(the, "no sequence makes the terminal stop", async (page, server) => {
  const sandbox = await server.create();
  await put(server, sandbox.id, "/workspace/last", `${LAST_CELL}${LAST_CELL.replace("1J", "?1J")}${ESC}[2J${ESC}[H`);
  await page.at(`#/sandboxes/${sandbox.id}/terminal`);
  await page.locator(".state.connected").waitFor();
  await eventually(async () => /[$#]$/m.test(await screen(page)));
  await page.keyboard.type("cat last; echo goes o\"\"n");
  await page.keyboard.press("Enter");
  await eventually(async () => /^goes on$/m.test(await screen(page)));
});

test("control: without the filter the emulator answers each of them", { timeout: LIMIT }, async () => {
  const page = await the.browser.newPage();
  try {
    await page.addScriptTag({ path: join(ROOT, "node_modules/@xterm/xterm/lib/xterm.js") });
    const answers = await page.evaluate(async (asked) => {
      const found = {};
      for (const [what, question] of Object.entries(asked)) {
        const terminal = new window.Terminal();
        const place = document.body.appendChild(document.createElement("div"));
        terminal.open(place);
        let typed = "";
        terminal.onData((text) => (typed += text));
        await new Promise((done) => terminal.write(question, done));
        terminal.dispose();
        place.remove();
        found[what] = typed.length > 0;
      }
      return found;
    }, ANSWERED);
    assert.deepEqual(Object.entries(answers).filter(([, answered]) => !answered), []);
    const all = everything();
    assert.deepEqual(Object.values(ANSWERED).filter((question) => question.startsWith(`${ESC}[`) && !question.includes(";") && !all.includes(question)), [`${ESC}[4$p`]);
    // At the last cell, "erase all above" is an error of the emulator.
    const failed = page.waitForEvent("pageerror");
    await page.evaluate((sequence) => {
      const terminal = new window.Terminal();
      terminal.open(document.body.appendChild(document.createElement("div")));
      terminal.write(sequence);
    }, LAST_CELL);
    assert.match((await failed).message, /isWrapped/);
  } finally {
    await page.close();
  }
});
