// Measures the inspector with a session of many turns and a tree of many nodes,
// and a refit of a large request: `node measure.mjs [SIZE]`. Not a test: the
// figures depend on the machine. CONTEXTURE names the command to measure.

import { discard, open, settled, startBrowser, startServer, temporary } from "./harness.mjs";
import { client, project, seedLarge, seedLargeRequest } from "./seed.mjs";

/** Returns the CPU time of each task of the page's thread during `work`, longest first. */
async function tasksOf(page, work) {
  const session = await page.context().newCDPSession(page);
  const events = [];
  session.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  await session.send("Tracing.start", { traceConfig: { includedCategories: ["toplevel", "disabled-by-default-devtools.timeline", "__metadata"] }, transferMode: "ReportEvents" });
  await work();
  const done = new Promise((resolve) => session.once("Tracing.tracingComplete", resolve));
  await session.send("Tracing.end");
  await done;
  const threads = new Set(events.filter((event) => event.name === "thread_name" && event.args.name === "CrRendererMain").map((event) => `${event.pid}/${event.tid}`));
  const tasks = events.filter((event) => event.tdur && /RunTask$/.test(event.name) && threads.has(`${event.pid}/${event.tid}`));
  return tasks.map((event) => event.tdur / 1000).sort((a, b) => b - a);
}

const size = Number(process.argv[2] ?? 10_000);
const root = temporary();
project(root);
const server = await startServer(root);
const call = client(server.base);
const say = (name, value) => console.log(`${name.padEnd(54)} ${value}`);
try {
  let began = performance.now();
  await seedLarge(call, size);
  say(`seed ${size} turns and ${size} nodes`, `${Math.round(performance.now() - began)} ms`);
  const request = await seedLargeRequest(call, root, 150_000);
  const times = [];
  for (const max_tokens of [150_000, 100_000, 60_000, 140_000, 30_000, 120_000, 80_000]) {
    began = performance.now();
    await call("POST", `/v1/snapshots/${request.hash}/refit`, { max_tokens });
    times.push(performance.now() - began);
  }
  say(`refit of ${request.tokens} tokens, each`, times.map((time) => `${Math.round(time)} ms`).join(", "));
  const browser = await startBrowser();
  for (const [name, address, list] of [["session", "#/session/large", "#turns"], ["tree", "#/tree/large", "#nodes"], ["tree, unfolded", "#/tree/large", "#nodes"]]) {
    const { page, check } = await open(browser.context, server.base);
    await page.addInitScript(() => {
      window.tasks = [];
      new PerformanceObserver((entries) => window.tasks.push(...entries.getEntries().map((entry) => [entry.startTime, entry.duration]))).observe({ type: "longtask", buffered: true });
    });
    // The files of the page are in the cache, as on every visit but the first.
    await page.goto(server.base + "/#/trees");
    await settled(page);
    await page.goto("about:blank");
    const opened = await tasksOf(page, async () => {
      began = performance.now();
      await page.goto(server.base + "/" + address);
      await page.locator(`${list} .row`).first().waitFor();
      const shown = performance.now() - began;
      await settled(page);
      say(`${name}: first rows, complete`, `${Math.round(shown)} ms, ${Math.round(performance.now() - began)} ms`);
    });
    say(`${name}: CPU time while opening, longest task`, `${Math.round(opened.reduce((sum, time) => sum + time, 0))} ms, ${opened[0]?.toFixed(1)} ms`);
    if (name.includes("unfolded")) { await page.getByRole("button", { name: "Unfold all" }).click(); await page.waitForTimeout(500); }
    const opening = await page.evaluate(() => window.tasks.splice(0).map(([, duration]) => Math.round(duration)));
    say(`${name}: long tasks while opening`, opening.length ? opening.map((time) => `${time} ms`).join(", ") : "none");
    let frames;
    const scrolled = await tasksOf(page, async () => { frames = await page.evaluate(async (list) => {
      const box = document.querySelector(list), times = [];
      const end = box.scrollHeight - box.clientHeight;
      let last = performance.now();
      for (let i = 0; i <= 240; i++) {
        box.scrollTop = (end * i) / 240;
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        times.push(now - last);
        last = now;
      }
      return times.sort((a, b) => a - b);
    }, list); });
    say(`${name}: CPU time of the longest task while scrolling`, `${scrolled.slice(0, 3).map((time) => time.toFixed(1) + " ms").join(", ")} of ${scrolled.length}`);
    const tasks = await page.evaluate(() => window.tasks.splice(0).map(([, duration]) => Math.round(duration)));
    say(`${name}: scroll through all, frames p50, p95, max`, [0.5, 0.95, 1].map((part) => `${frames[Math.min(frames.length - 1, Math.floor(frames.length * part))].toFixed(1)} ms`).join(", "));
    say(`${name}: long tasks while scrolling`, tasks.length ? `${tasks.length}, longest ${Math.max(...tasks)} ms` : "none");
    await check();
    await page.close();
  }
  await browser.close();
} finally { await server.stop(); discard(root); }
