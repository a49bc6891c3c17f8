// The overview of the dashboard in a real browser: the times of fresh tabs, and then one tab that stays open until stdin ends. Each line
// of stdin is a page that this tab shows from then on, and when it does, stdout tells. Each line of stdout is one object of JSON. A tab has two times: the first paint, which may be of the page's frame alone, and the frame in which
// the overview's numbers stand, with the rows of the newest sandboxes and nothing that is still loading.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [modules, executablePath, url, loads] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const PATIENCE_MS = 60_000;

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

/** Runs in the page from its beginning: `window.shown` is when a frame with the numbers was drawn. */
function watch() {
  window.shown = new Promise((done) => {
    const stands = () => {
      const tiles = [...document.querySelectorAll("main .tile")];
      const running = tiles.find((tile) => tile.querySelector("span")?.textContent === "Running")?.querySelector("strong")?.textContent;
      const cards = [...document.querySelectorAll("main .card")];
      const newest = cards.find((card) => card.querySelector("h2")?.textContent === "Newest sandboxes");
      return /^[1-9]\d*$/.test(running ?? "") && newest?.querySelector("li a") && !document.querySelector("main .waiting");
    };
    const observer = new MutationObserver(() => {
      if (!stands()) return;
      observer.disconnect();
      // A task behind the next frame's callbacks: the frame was drawn by then.
      requestAnimationFrame(() => setTimeout(() => done(performance.now()), 0));
    });
    observer.observe(document, { childList: true, characterData: true, subtree: true });
  });
}

const browser = await chromium.launch({ executablePath, headless: true, args: FLAGS });
try {
  const open = async () => {
    // A context of its own has nothing in its cache.
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    await context.addInitScript((token) => sessionStorage.setItem("paddock.token", token), process.env.PADDOCK_TOKEN);
    await context.addInitScript(watch);
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.goto(`${url}/ui/`);
    const running = page.locator(".tile").filter({ hasText: "Running" }).locator("strong");
    await running.waitFor();
    const told = await page.evaluate(async () => ({
      numbers: (await window.shown) / 1000,
      paint: performance.getEntriesByName("first-contentful-paint")[0].startTime / 1000,
    }));
    return { context, page, told, running: Number(await running.innerText()) };
  };
  // The first tab starts processes of the browser's that the others share.
  await (await open()).context.close();
  const seen = { paint: [], numbers: [], running: 0 };
  for (let left = Number(loads); left > 0; left -= 1) {
    const { context, told, running } = await open();
    seen.paint.push(told.paint);
    seen.numbers.push(told.numbers);
    seen.running = running;
    await context.close();
  }
  say(seen);
  const { context, page } = await open();
  say({ open: true });
  for await (const hash of createInterface({ input: process.stdin })) {
    await page.goto(`${url}/ui/${hash}`);
    await page.locator("[role=tabpanel] :is(.tree, .timeline) li").first().waitFor();
    say({ open: hash });
  }
  await context.close();
} finally {
  await browser.close();
}
