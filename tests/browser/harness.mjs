// A server over a temporary project, and a browser that notices what must not
// happen: messages on the console, errors, and requests to anywhere else.

import { spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const HERE = dirname(fileURLToPath(import.meta.url));
const TOP = resolve(HERE, "../..");
export const COMMAND = process.env.CONTEXTURE ?? join(TOP, "target/debug/contexture");
export const PICTURES = join(TOP, "target/inspector");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Returns Debian's browser. A missing one is a failure, never a reason to skip. */
function browserPath() {
  const found = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => path && existsSync(path));
  if (!found) throw new Error("no browser: install chromium (apt-get install chromium), or set CHROMIUM to its path");
  return found;
}

export async function startBrowser() {
  mkdirSync(PICTURES, { recursive: true });
  const profile = mkdtempSync(join(tmpdir(), "contexture-browser-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: browserPath(),
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    viewport: { width: 1280, height: 800 },
    acceptDownloads: true,
    timezoneId: "UTC",
    locale: "en-GB",
    reducedMotion: "reduce",
  });
  return { context, close: async () => { await context.close(); rmSync(profile, { recursive: true, force: true }); } };
}

/** Starts `contexture serve`, or `inspect`, and waits until it listens. */
export async function startServer(root, args = ["serve", "--addr", "127.0.0.1:0"]) {
  const child = spawn(COMMAND, [...args, "--root", root], { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, CONTEXTURE_SERVER_LOG: "off", DISPLAY: "", WAYLAND_DISPLAY: "", BROWSER: "" } });
  let said = "";
  const address = await new Promise((done, failed) => {
    const read = (bytes) => {
      said += bytes;
      const found = /(http:\/\/127\.0\.0\.1:\d+)(\/#\S+)?/.exec(said);
      if (found) done({ base: found[1], fragment: found[2] ?? "/" });
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", (code) => failed(new Error(`the server ended with ${code}: ${said}`)));
  });
  return { ...address, said: () => said, stop: () => new Promise((done) => { child.removeAllListeners("exit"); child.on("exit", done); child.kill(); }) };
}

export const temporary = () => mkdtempSync(join(tmpdir(), "contexture-inspector-"));
export const discard = (path) => rmSync(path, { recursive: true, force: true });

/** Opens a page that is watched. `check()` fails if anything went wrong on it. */
export async function open(context, base, options = {}) {
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type()) && !(options.allow ?? (() => false))(message.text())) wrong.push(`console ${message.type()}: ${message.text()}`); });
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  page.on("request", (request) => { if (!request.url().startsWith(base) && !/^(blob|data):/.test(request.url())) wrong.push(`outside request: ${request.url()}`); });
  await page.emulateMedia({ colorScheme: options.scheme ?? "light", reducedMotion: "reduce" });
  if (options.width) await page.setViewportSize({ width: options.width, height: options.height ?? 740 });
  const check = async () => {
    if (await page.evaluate(() => "broken" in window)) wrong.push("content was executed");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 1) wrong.push(`the page is ${wide} px too wide at ${page.url()}`);
    if (wrong.length) throw new Error(wrong.join("\n"));
  };
  const go = async (address) => {
    await page.goto(base + "/" + address);
    await settled(page);
  };
  return { page, check, go };
}

/** Waits until nothing is loading. */
export async function settled(page) {
  await page.waitForSelector("main .page, main .empty, dialog[open]");
  await page.waitForFunction(() => !document.querySelector(".loading, i.bone, .bone") && !/computing/.test(document.querySelector(".pair")?.textContent ?? ""));
}

/** Fails if axe finds something serious. */
export async function accessible(page, where) {
  // The policy of the page allows no inline script; the driver's is outside it.
  await page.evaluate(AXE);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  if (serious.length) throw new Error(`${where}: ` + serious.map((one) => `${one.id} (${one.impact}): ${one.help}\n  ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + "\n    " + node.failureSummary).join("\n  ")}`).join("\n"));
}

/** Takes a picture in light and in dark. */
export async function picture(page, name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.waitForTimeout(120);
    await page.screenshot({ path: join(PICTURES, `${name}-${colorScheme}.png`) });
    if (process.env.UPDATE_DOCS && name === "left-out" && colorScheme === "light") copyFileSync(join(PICTURES, `${name}-light.png`), join(TOP, "docs/inspector.png"));
    await accessible(page, `${name}, ${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
}
