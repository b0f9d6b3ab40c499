// The inspector in a real browser: a script for each view, the keyboard, narrow
// screens, hostile content, keys, read-only access and exported files.
//
// After every script: nothing on the console, no request to anywhere else,
// nothing executed, nothing wider than the screen. Pictures in light and dark
// are kept in target/inspector, and axe finds nothing serious on them.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { COMMAND, accessible, discard, open, picture, settled, startBrowser, startServer, temporary } from "./harness.mjs";
import { client, project, seed, seedHostile, seedLarge } from "./seed.mjs";

let browser, server, root, seeded, call;

before(async () => {
  browser = await startBrowser();
  root = temporary();
  project(root);
  server = await startServer(root);
  call = client(server.base);
  seeded = await seed(call);
});

after(async () => {
  await browser?.close();
  await server?.stop();
  if (root) discard(root);
});

/** Runs a script on a watched page. */
const view = (name, options, script) => test(name, async () => {
  if (typeof options === "function") [script, options] = [options, {}];
  const watched = await open(browser.context, (options.server?.() ?? server).base, options);
  try {
    await script(watched);
    await watched.check();
  } finally { await watched.page.close(); }
});

/** Presses a key until the address matches: on a busy machine, a view can be shown before it handles keys. */
const pressUntil = async (page, key, address) => {
  for (let tries = 0; ; tries++) {
    await page.keyboard.press(key);
    try { return await page.waitForURL(address, { timeout: 5000 }); } catch (error) { if (tries === 3) throw error; }
  }
};

const text = (page, selector) => page.locator(selector).innerText();

view("sessions are listed and searched", async ({ page, go }) => {
  await go("#/sessions");
  assert.match(await text(page, "#sessions"), /harbour[\s\S]*12/);
  await picture(page, "sessions");
  await page.getByLabel("Search sessions").fill("quiet");
  assert.equal(await page.locator("#sessions [role=option]").count(), 1);
  await page.getByLabel("Search sessions").fill("nothing like it");
  await page.getByText("No session matches").waitFor();
});

view("a session shows its turns, cache hits, cost and compactions", async ({ page, go }) => {
  await go("#/session/harbour?turn=9");
  assert.match(await text(page, ".facts:not(.small)"), /Cache hits\s*69 %/);
  assert.match(await text(page, ".detail"), /Turn 9[\s\S]*See what the model saw[\s\S]*Who sails it\?[\s\S]*timetable/);
  assert.match(await text(page, "#turns"), /compacted/);
  await picture(page, "session");
  await page.getByRole("link", { name: "See what the model saw" }).click();
  await settled(page);
  assert.match(page.url(), /#\/request\//);
});

view("a request shows its window by layer and every block", async ({ page, go }) => {
  await go(`#/request/${seeded.requests[9]}`);
  assert.match(await text(page, ".legend"), /session[\s\S]*event[\s\S]*free[\s\S]*reserved/);
  await page.getByLabel("Blocks, in the order they were sent").getByText("When does the ferry leave?").first().click();
  const detail = await text(page, ".detail");
  assert.match(detail, /In the request: fits whole/);
  assert.match(detail, /Since[\s\S]*9 requests/);
  await picture(page, "request");
  await page.locator(".legend").getByRole("button", { name: /event/ }).click();
  const rows = await page.locator("#blocks [role=option] small").allInnerTexts();
  assert.ok(rows.length > 0 && rows.every((row) => row.startsWith("event")), String(rows));
});

test("an imported request shows the size that the provider reported", async () => {
  const own = temporary();
  const transcripts = join(import.meta.dirname, "../../crates/contexture-import/tests/fixtures/claude-code");
  const run = (...args) => execFileSync(COMMAND, [...args, "--root", own], { encoding: "utf8" });
  run("import", "claude-code", transcripts);
  const [latest] = JSON.parse(run("snapshot", "list", "--session", "claude-code:11111111-1111-4111-8111-111111111111", "--json"));
  const other = await startServer(own);
  try {
    const { page, go, check } = await open(browser.context, other.base, { width: 360 });
    await go(`#/request/${latest.hash}`);
    assert.match(await text(page, ".facts:not(.small)"), /Tokens\s*1,110 blocks: about \d+[\s\S]*Left out\s*unknown[\s\S]*Counted with\s*provider/);
    await page.getByRole("link", { name: "Left out ?" }).click();
    await page.getByText("Left-out candidates are unknown").waitFor();
    await check();
    await page.close();
    const what = await open(browser.context, other.base);
    await what.go(`#/request/${latest.hash}/what-if`);
    await what.page.getByText("The request would be the same.").waitFor();
    // A larger window changes nothing either, and a smaller one needs no other reserve.
    for (const window of ["150000", "100000", "9000"]) {
      await what.page.getByLabel("Exact").fill(window);
      await what.page.keyboard.press("Enter");
      await what.page.getByText(`Now: claude-opus-5-5, ${Number(window).toLocaleString("en-US")} tokens`).waitFor();
      await settled(what.page);
      await what.page.getByText("The request would be the same.").waitFor();
    }
    assert.equal(await what.page.getByLabel("Reserved for the answer").inputValue(), "2250");
    await what.page.getByLabel("Reserved for the answer").fill("1000");
    await what.page.keyboard.press("Enter");
    await what.page.waitForFunction(() => /reserved\s*1k/.test([...document.querySelectorAll(".pair .legend")].pop().textContent));
    assert.match(what.page.url(), /max=9000&reserve=1000/);
    await accessible(what.page, "what if, imported");
    for (const format of ["anthropic", "openai-chat", "openai-responses", "gemini"]) {
      await what.go(`#/request/${latest.hash}/sent?format=${format}`);
      await what.page.waitForFunction(() => document.querySelector(".sent pre")?.textContent.startsWith("{"));
    }
    await what.check();
    await what.page.close();
  } finally {
    await other.stop();
    discard(own);
  }
});

view("a missing file is found, with what would have kept it", async ({ page, go }) => {
  await go(`#/request/${seeded.left}`);
  await page.getByLabel("Search: path, id, text or reason").fill("weather");
  await page.getByText("see why it was left out").click();
  assert.match(await text(page, ".detail"), /src\/weather\.rs[\s\S]*Left out: needs about [\d,]+ tokens[\s\S]*What would have kept it/);
  await page.getByText(/a window of [\d,]+ tokens instead of 6,000/).waitFor();
  await page.getByText("Or a higher priority").waitFor();
  assert.match(await text(page, ".detail"), /Or a higher priority: above 0\.8 instead of 0\.3, it comes before src\/timetable\.rs [\d.]+k, src\/tide\.rs [\d.]+k, which use [\d,]+ tokens/);
  await picture(page, "left-out");
  await page.getByRole("link", { name: "See that request" }).click();
  await settled(page);
  await page.getByText("With this window, the candidate is in the request").waitFor();
});

view("the same request at another budget or model", async ({ page, go }) => {
  await go(`#/request/${seeded.left}/what-if`);
  await page.getByText("The request would be the same.").waitFor();
  await page.getByLabel("Exact").fill("3000");
  await page.keyboard.press("Enter");
  await page.locator("#changes").getByText("gone").waitFor();
  assert.match(await text(page, ".verdict"), /1 gone/);
  await page.locator("#changes [role=option]").first().click();
  assert.match(await text(page, ".detail"), /src\/tide\.rs/);
  await picture(page, "what-if");
  await page.getByLabel("Model").fill("claude-sonnet-4-5");
  await page.keyboard.press("Enter");
  await page.getByText("Now: claude-sonnet-4-5").waitFor();
  await settled(page);
  await page.getByRole("button", { name: "As recorded" }).click();
  await page.getByText("The request would be the same.").waitFor();
  // Nothing of this was stored.
  const listed = await call("GET", `/v1/snapshots?limit=1`);
  assert.equal(listed.snapshots[0].hash, seeded.left);
});

view("a request as it was sent, in each format", async ({ page, go }) => {
  await go(`#/request/${seeded.left}/sent`);
  assert.match(await text(page, ".sent"), /The ferry/);
  await page.getByLabel("Format").selectOption("anthropic");
  await settled(page);
  await page.waitForFunction(() => document.querySelector(".sent pre").textContent.includes('"messages"'));
  await picture(page, "sent");
});

view("two requests are compared", async ({ page, go }) => {
  await go(`#/diff/${seeded.requests[8]}/${seeded.requests[9]}`);
  assert.match(await text(page, ".facts"), /First differing byte\s*[\d,]+/);
  assert.match(await text(page, ".detail"), /First difference/);
  await picture(page, "diff");
  await page.getByRole("button", { name: "Swap" }).click();
  await settled(page);
  assert.match(page.url(), new RegExp(`${seeded.requests[9]}/${seeded.requests[8]}`));
});

view("requests are listed, and two of them compared by keyboard", async ({ page, go }) => {
  await go("#/requests?session=harbour");
  await picture(page, "requests");
  await page.locator("#requests").focus();
  await page.keyboard.press("c");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("c");
  await page.getByText("First differing byte").waitFor();
});

view("memory shows the parts of each score, supersedes and forgets", async ({ page, go }) => {
  await go("#/memory");
  assert.match(await text(page, ".facts"), /events\s+\d+[\s\S]*chunks\s+1/);
  await picture(page, "memory-overview");
  await page.keyboard.press("/");
  await page.keyboard.type("Who is the captain of the ferry?");
  await page.getByLabel("Tokens").fill("120");
  await page.keyboard.press("Enter");
  await page.locator("#records").waitFor();
  assert.match(await text(page, ".verdict"), /left out/);
  const scores = (await page.locator("#records .row:not(.out) .number").allInnerTexts()).map(parseFloat);
  assert.deepEqual(scores, [...scores].sort((a, b) => b - a), "the best record is the first");
  await page.locator("#records").getByText("Morag").click();
  await settled(page);
  assert.match(await text(page, ".scores"), /Score [\d.]+[\s\S]*words/);
  await picture(page, "memory");
  await page.getByRole("button", { name: "Supersede…" }).click();
  await page.getByLabel("What holds from now on").fill("The captain of the ferry is called Iain.");
  await page.getByLabel("Reason (optional)").fill("Morag has retired");
  await page.getByRole("button", { name: "Supersede", exact: true }).click();
  await page.locator("#records").getByText("Iain").waitFor();
  const { records: [old] } = await call("GET", "/v1/memory/records/captain");
  assert.ok(old.valid_to, "the old record has an end");
  await page.locator("#records").getByText("Iain").click();
  await page.getByRole("button", { name: "Forget…" }).click();
  await page.getByRole("button", { name: "Forget", exact: true }).click();
  await page.waitForFunction(() => document.querySelector("#records")?.textContent.includes("called Iain") === false);
  const { records: reasons } = await call("GET", "/v1/memory/list?source=inspector");
  assert.deepEqual(reasons.map((one) => /captain was superseded by captain-\d+: Morag has retired$/.test(one.content)), [true]);
});

view("records are listed by kind, session and source, and forgotten with a reason", async ({ page, go }) => {
  await call("POST", "/v1/memory/records", { records: [{ kind: "event", id: "lost", session_id: "found things", timestamp: "2026-02-02T08:00:00Z", content: "A glove was found." }] });
  await go("#/memory/records");
  await picture(page, "memory-records");
  await page.getByLabel("Kind").selectOption("chunk");
  const single = () => page.waitForFunction(() => document.querySelectorAll("#records [role=option]").length === 1);
  await single();
  assert.match(await text(page, "#records"), /tide tables/);
  await page.getByLabel("Kind").selectOption("");
  await page.getByLabel("Source").fill("tides.md");
  await page.keyboard.press("Enter");
  await single();
  assert.match(page.url(), /source=tides\.md/);
  await page.getByLabel("Source").fill("");
  await page.getByLabel("Session", { exact: true }).fill("found things");
  await page.keyboard.press("Enter");
  await page.locator("#records").getByText("A glove").click();
  await page.keyboard.press("d");
  await page.getByLabel("Reason (optional)").fill("It was returned");
  await page.getByRole("button", { name: "Forget", exact: true }).click();
  await page.getByText("No records").waitFor();
  const { records } = await call("GET", "/v1/memory/list?source=inspector");
  assert.ok(records.some((one) => one.content === "The event lost was deleted: It was returned"), JSON.stringify(records));
});

view("an address asks memory, also when it is changed by hand", async ({ page, go }) => {
  await go("#/memory?q=tides");
  await page.locator("#records .row").first().getByText("tide tables").waitFor();
  await go("#/memory?q=bicycle");
  await page.locator("#records .row").first().getByText("my bicycle").waitFor();
  assert.equal(await page.getByRole("searchbox").inputValue(), "bicycle");
});

view("extracted entities are in the graph", async ({ page, go }) => {
  await call("POST", "/v1/memory/records", { records: [
    { kind: "event", id: "move", content: { speaker: "Flora", text: "I live in Mallaig." } },
  ] });
  await go("#/memory/graph");
  await page.locator("#entities").getByText("Mallaig").click();
  await page.waitForFunction(() => /lives_in[\s\S]*/.test(document.querySelector(".detail")?.textContent ?? ""));
});

view("entities and relations are a small graph", async ({ page, go }) => {
  const relation = (id, type, source_id, target_id) => ({ kind: "relation", id, type, source_id, target_id });
  await call("POST", "/v1/memory/records", { records: [
    { kind: "entity", id: "isle", type: "place", name: "Isle of Rum" }, { kind: "entity", id: "boat", type: "vessel", name: "Lochnevis" }, { kind: "entity", id: "mate", type: "person", name: "Callum" },
    relation("r1", "serves", "boat", "isle"), relation("r2", "works_on", "mate", "boat"),
  ] });
  await go("#/memory/graph?entity=boat");
  assert.match(await text(page, ".detail"), /Lochnevis[\s\S]*serves[\s\S]*Isle of Rum/);
  assert.equal(await page.locator(".graph a").count(), 2);
  await picture(page, "memory-graph");
  // A neighbour is a link: with the keyboard, too.
  await page.locator(".graph a", { hasText: "Callum" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector(".detail h2")?.textContent === "Callum");
  assert.match(page.url(), /entity=mate/);
  await page.getByLabel("Search entities").fill("rum");
  assert.equal(await page.locator("#entities [role=option]").count(), 1);
});

test("a tree is continued with a model, and its samples are nodes", async () => {
  const root = temporary();
  let calls = 0;
  const model = createServer((request, response) => {
    let body = "";
    request.on("data", (part) => { body += part; });
    request.on("end", async () => {
      const number = ++calls;
      if (!JSON.parse(body).stream || request.url !== "/v1/chat/completions") return response.writeHead(404).end();
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const part of [`Sample ${number}: `, "the ferry ", "<b>sailed</b>."]) {
        response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: part } }] })}\n\n`);
        await new Promise((done) => setTimeout(done, 60));
      }
      response.write(`data: ${JSON.stringify({ model: "writer-1b", choices: [{ delta: {}, finish_reason: number === 1 ? "length" : "stop" }] })}\n\n`);
      response.write(`data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 21, completion_tokens: 6 } })}\n\n`);
      response.end("data: [DONE]\n\n");
    });
  }).listen(0, "127.0.0.1");
  await new Promise((done) => model.once("listening", done));
  writeFileSync(join(root, "contexture.toml"), `[loom.model]\nkind = "openai"\nmodel = "writer-1"\nbase_url = "http://127.0.0.1:${model.address().port}"\n`);
  process.env.CONTEXTURE_TRUST_FILE = join(root, "trusted");
  execFileSync(COMMAND, ["trust", "--root", root]);
  const server = await startServer(root);
  const seeded = client(server.base);
  await seeded("POST", "/v1/trees", {
    tree: { id: "story", mode: "dialogue", title: "The ferry" },
    nodes: [{ id: "start", author: "human", content: "Tell me a story about a ferry." }], edges: [],
  });
  const watched = await open(browser.context, server.base);
  const { page } = watched;
  try {
    await watched.go("#/tree/story?node=start");
    await page.locator("#nodes").focus();
    await page.keyboard.press("m");
    await page.getByLabel("Samples").fill("2");
    await accessible(page, "continue");
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    await page.locator("dialog .columns").getByText("Sample").first().waitFor();
    await page.getByText("Added 2 nodes").waitFor();
    // A sample that the limit has cut is not taken for a whole one.
    await page.locator("dialog").getByText("cut: length").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("treeitem", { name: /Sample [12]: the ferry <b>sailed/ }).first().waitFor();
    assert.equal(await page.getByRole("treeitem").count(), 3);
    const { nodes } = await seeded("GET", "/v1/trees/story/document");
    assert.deepEqual(nodes.filter((one) => one.author === "model").map((one) => one.content).sort(), ["Sample 1: the ferry <b>sailed</b>.", "Sample 2: the ferry <b>sailed</b>."]);
    await page.getByRole("treeitem", { name: /Sample 1/ }).click();
    await page.locator(".detail").getByText("cut: length").waitFor();
    assert.match(await text(page, ".detail"), /Model\s*writer-1b[\s\S]*Input\s*21[\s\S]*Output\s*6/);
    const { node } = await seeded("GET", `/v1/trees/story/nodes/${nodes.find((one) => /Sample 1/.test(one.content)).id}`);
    assert.equal(node.raw_response.provider, "openai");
    assert.equal(node.raw_response.body.choices[0].finish_reason, "length");
    assert.deepEqual([node.raw_response.usage.input_tokens, node.raw_response.usage.output_tokens], [21, 6]);
    await page.getByRole("link", { name: "See what the model saw" }).click();
    await page.getByText("Tell me a story about a ferry.").first().waitFor();
    await watched.check();
  } finally { await page.close(); await server.stop(); model.close(); delete process.env.CONTEXTURE_TRUST_FILE; discard(root); }
});

view("without a model, continuing says what to set", { allow: (message) => /status of 422/.test(message) }, async ({ page, go }) => {
  await go("#/tree/story?node=calm");
  await page.getByRole("button", { name: "Continue…" }).click();
  await page.getByRole("button", { name: "Continue", exact: true }).click();
  await page.getByText("no model is configured to continue trees").waitFor();
  await page.getByText("loom.model").waitFor();
});

view("a tree is read, searched, compared and followed", async ({ page, go }) => {
  await go("#/trees");
  await picture(page, "trees");
  await page.getByText("The ferry").click();
  await settled(page);
  await page.getByRole("treeitem", { name: /The sea was calm/ }).click();
  await picture(page, "tree");
  await page.getByRole("button", { name: "Siblings" }).click();
  assert.match(await text(page, ".detail"), /3 siblings[\s\S]*A storm rose[\s\S]*Difference/);
  await picture(page, "tree-siblings");
  await page.getByRole("button", { name: "Path", exact: true }).click();
  assert.match(await text(page, ".reading"), /Tell me a story[\s\S]*The sea was calm/);
  await page.getByRole("button", { name: "Request", exact: true }).click();
  await page.getByText(/tokens for/).waitFor();
  assert.match(await text(page, ".detail"), /Be brief\.[\s\S]*The sea was calm/);
  await picture(page, "tree-request");
  await page.getByLabel("Search in the tree").fill("lemons");
  assert.equal(await page.getByRole("treeitem").count(), 1);
});

view("a tree is imported from a file", async ({ page, go }) => {
  await go("#/trees");
  await page.getByRole("button", { name: "Import…" }).click();
  const document = { tree: { id: "from-file", mode: "dialogue", title: "From a file" }, nodes: [{ id: "f1", author: "human", content: "Ahoy." }], edges: [] };
  await page.getByLabel("From a file").setInputFiles({ name: "tree.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(document)) });
  await page.waitForFunction(() => document.querySelector("dialog textarea").value.includes("Ahoy"));
  await accessible(page, "import a tree");
  await page.getByRole("button", { name: "Import", exact: true }).click();
  await page.locator("#trees").getByText("From a file").click();
  await page.getByRole("treeitem", { name: /Ahoy/ }).waitFor();
});

view("a tree is grown, edited, excluded, bookmarked and pruned by keyboard", async ({ page, go }) => {
  await go("#/tree/story?node=storm");
  await page.locator("#nodes").focus();
  await page.keyboard.press("a");
  await page.keyboard.type("x");
  await page.getByLabel("Content").fill("The captain said no.");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("treeitem", { name: /The captain said no/ }).waitFor();
  assert.match(await text(page, ".detail"), /The captain said no/);
  await page.keyboard.press("e");
  await page.getByLabel("Content").fill("The captain said yes.");
  await page.getByRole("button", { name: "Add a version" }).click();
  await page.getByRole("treeitem", { name: /The captain said yes/ }).waitFor();
  const flags = async () => (await call("GET", "/v1/trees/story/document")).nodes.find((node) => node.content === "The captain said yes.").metadata;
  for (const [key, name] of [["x", "excluded"], ["b", "bookmarked"]]) {
    await page.keyboard.press(key);
    await page.locator(".notes").getByText(name).first().waitFor();
    assert.equal((await flags())[name], true, name);
  }
  // Without the edit, the original is the version that requests have.
  await page.keyboard.press("d");
  await page.getByRole("treeitem", { name: /The captain said no/ }).waitFor();
  assert.equal(await page.getByRole("treeitem", { name: /The captain said yes/ }).count(), 0);
  await page.getByRole("button", { name: "2 (pruned)" }).click();
  await page.getByRole("button", { name: "Restore this version" }).click();
  await page.getByRole("treeitem", { name: /The captain said yes/ }).waitFor();
  for (const left of [/The captain said no/, /show 1 pruned/]) {
    await page.locator("#nodes").focus();
    await page.keyboard.press("d");
    await page.getByText(left).first().waitFor();
  }
  await page.keyboard.press("u");
  await page.getByRole("treeitem", { name: /The captain said/ }).waitFor();
});

view("everything can be reached by keyboard alone", async ({ page, go }) => {
  await go("#/sessions");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("?");
  await page.getByRole("heading", { name: "Keyboard" }).waitFor();
  await picture(page, "help");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.querySelector("dialog"));
  await page.locator("#sessions").focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(/#\/session\//);
  await settled(page);
  if (await page.locator("#turns").count() === 0) {
    await page.keyboard.press("1");
    await page.locator("#sessions").focus();
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await settled(page);
  }
  await page.locator("#turns").focus();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.locator(".detail .primary").waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL(/#\/request\//);
  await settled(page);
  for (const [key, part] of [["l", "left-out"], ["w", "what-if"], ["s", "sent"], ["b", "blocks"]]) {
    await pressUntil(page, key, new RegExp(`/${part}`));
    await settled(page);
  }
  for (const [key, name] of [["2", "requests"], ["3", "memory"], ["4", "trees"], ["1", "sessions"]]) {
    await pressUntil(page, key, new RegExp(`#/${name}`));
    await settled(page);
  }
  // The theme is kept, so that it ends as it began.
  for (const theme of ["light", "dark", "auto"]) {
    await page.keyboard.press("t");
    await page.waitForFunction((theme) => document.documentElement.dataset.theme === theme, theme);
  }
});

view("Enter presses what has the focus, and arrows move in the list from anywhere", async ({ page, go }) => {
  await go("#/requests?session=harbour");
  const selected = () => page.locator('#requests [aria-selected="true"]').getAttribute("aria-posinset");
  await page.keyboard.press("ArrowDown");
  assert.equal(await selected(), "2");
  assert.equal(await page.evaluate(() => document.activeElement.id), "requests");
  await page.keyboard.press("j");
  assert.equal(await selected(), "3");
  await page.locator("header.top nav").getByText("Memory").focus();
  await page.keyboard.press("k");
  assert.equal(await selected(), "2");
  await page.locator("header.top nav").getByText("Memory").focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(/#\/memory/);
  await go("#/requests?session=harbour");
  await page.getByRole("button", { name: "Compare…" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: /Compare with/ }).waitFor();
});

view("a selection that is dragged out of a dialog does not close it", async ({ page, go }) => {
  await go("#/tree/story?node=fog");
  await page.getByRole("button", { name: "Edit" }).click();
  const field = page.getByLabel("Content");
  await field.fill("Fog hid the pier, and much else.");
  const box = await field.boundingBox();
  await page.mouse.move(box.x + 80, box.y + 12);
  await page.mouse.down();
  await page.mouse.move(5, 5, { steps: 4 });
  await page.mouse.up();
  assert.equal(await field.inputValue(), "Fog hid the pier, and much else.");
  await page.mouse.click(5, 5);
  await page.waitForFunction(() => !document.querySelector("dialog"));
});

view("a new address in the same view is followed", async ({ page, go }) => {
  await go("#/session/harbour?turn=9");
  await go("#/session/harbour?turn=3");
  await page.getByRole("heading", { name: "Turn 3" }).waitFor();
  await go("#/tree/story?node=calm");
  await go("#/tree/story?node=fog");
  await page.locator(".detail").getByText("Fog hid the pier").waitFor();
  await go("#/sessions?q=quiet");
  await go("#/sessions?q=harbour");
  await page.locator("#sessions").getByText("harbour").first().waitFor();
  assert.equal(await page.getByLabel("Search sessions").inputValue(), "harbour");
});

view("the requests of a fork and of a long session are found, and a failed cost is said", { allow: (message) => /status of 503/.test(message) }, async ({ page, go }) => {
  await call("POST", "/v1/sessions/harbour/fork", { label: "fork" });
  // A list that ends before the request, as with more than 1,000.
  await page.route(/\/v1\/snapshots\?session=/, (route) => route.fulfill({ json: { snapshots: [], next: "0" } }));
  await page.route("**/cost", (route) => route.fulfill({ status: 503, json: { error: { code: "timeout", message: "the request took longer than 60 s" } } }));
  for (const label of ["fork", "harbour"]) {
    await go(`#/session/${label}?turn=5`);
    await page.getByRole("link", { name: "See what the model saw" }).waitFor();
    assert.equal(await page.getByRole("link", { name: "See what the model saw" }).getAttribute("href"), `#/request/${seeded.requests[4]}`);
    assert.match(await text(page, ".banner.warn"), /could not be loaded: the request took longer than 60 s/);
    assert.match(await text(page, "#turns"), /unknown/);
  }
});

view("a list of more than 20,000 requests is loaded and searched to its end", async ({ page, go }) => {
  const total = 26_000;
  await page.route(/\/v1\/snapshots\?/, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const from = Number(query.get("before") ?? 0), to = Math.min(total, from + Number(query.get("limit")));
    const snapshots = Array.from({ length: to - from }, (_, i) => ({ hash: (from + i).toString(16).padStart(64, "0"), session: `s${from + i}`, model: "m", tokens: 10, created_at: "2026-03-01T10:00:00Z" }));
    route.fulfill({ json: { snapshots, next: to < total ? String(to) : null } });
  });
  await go("#/requests?q=s25999");
  await page.locator("#requests").getByText("s25999").waitFor();
  await page.getByLabel("Search by session, model or hash").fill("");
  await page.getByText("26,000 requests", { exact: true }).waitFor();
});

view("a long text is compared in part, and the page says so", async ({ page, go }) => {
  const long = "The ferry sails at nine and returns at five.\n".repeat(9500);
  await call("POST", "/v1/trees", {
    tree: { id: "long-texts", mode: "dialogue" },
    nodes: [{ id: "t", author: "human", content: "Go." }, { id: "one", author: "model", content: long + "left\n" }, { id: "two", author: "model", content: long + "right\n" }],
    edges: ["one", "two"].map((id) => ({ id: `e-${id}`, type: "continuation", sources: [{ node_id: "t", role: "primary" }], target_node_id: id })),
  });
  await go("#/tree/long-texts?node=one&view=siblings");
  await page.getByText(/Only the first 400,000 of 427,50\d characters are compared/).waitFor();
  await page.getByRole("button", { name: "Compare all" }).click();
  await page.locator(".diff .added").getByText("right").waitFor();
});

view("the path of an excluded node and an unknown view are accessible", async ({ page, go }) => {
  await call("PATCH", "/v1/trees/story/nodes/calm-more", { excluded: true });
  await go("#/tree/story?node=calm-crew&view=path");
  await page.locator(".reading").getByText("excluded").waitFor();
  await picture(page, "tree-path-excluded");
  await call("PATCH", "/v1/trees/story/nodes/calm-more", { excluded: false });
  await go("#/nowhere");
  await page.getByText("No such view").waitFor();
  await accessible(page, "no such view");
});

view("an edit keeps the image of a node, and an annotation has an address", async ({ page, go }) => {
  const image = { type: "image", media_type: "image/png", data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==" };
  await call("POST", "/v1/trees", {
    tree: { id: "picture", mode: "dialogue", title: "A picture" },
    nodes: [{ id: "seen", author: "human", content: [{ type: "text", text: "What is this?" }, image] }, { id: "remark", author: "human", content: "It is a dot." }],
    edges: [{ id: "e1", type: "annotation", sources: [{ node_id: "seen", role: "primary" }], target_node_id: "remark" }],
    paths: [{ name: "main", head: "seen" }],
  });
  await go("#/tree/picture?node=remark");
  assert.match(await text(page, ".detail"), /What is this\?[\s\S]*Annotations[\s\S]*It is a dot/);
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByText("1 other part of the node stays as it is: image").waitFor();
  await page.getByLabel("Content").fill("Who drew this?");
  await page.getByRole("button", { name: "Add a version" }).click();
  await page.getByRole("treeitem", { name: /Who drew this/ }).waitFor();
  const { nodes } = await call("GET", "/v1/trees/picture/document");
  const [first, second] = nodes.find((node) => node.edited_from === "seen").content;
  assert.equal(first.text, "Who drew this?");
  assert.deepEqual([second.type, second.data ?? second.source ?? second.url], [image.type, image.data]);
});

view("many siblings, long titles, invisible characters and other directions", async ({ page, go }) => {
  const nodes = [{ id: "top", author: "human", content: "Choose." }], edges = [];
  for (let i = 0; i < 30; i++) {
    nodes.push({ id: `way-${i}`, author: "model", content: `Way ${i}.`, created_at: `2026-03-01T10:00:${String(i).padStart(2, "0")}Z` });
    edges.push({ id: `e${i}`, type: "continuation", sources: [{ node_id: "top", role: "primary" }], target_node_id: `way-${i}` });
  }
  nodes[30].content = "a\u{e0041}b\u061cc\u00add";
  nodes[29].content = "שלום, המעבורת יוצאת בתשע";
  await call("POST", "/v1/trees", { tree: { id: "ways", mode: "dialogue", title: "T".repeat(4000) }, nodes, edges });
  await assert.rejects(call("POST", "/v1/trees", { tree: { id: "long", mode: "dialogue", title: "T".repeat(5000) }, nodes: [], edges: [] }), /limit[\s\S]*tree\.title/);
  await go("#/tree/ways?node=way-29&view=siblings");
  assert.ok((await text(page, "h1")).length < 220);
  assert.match(await text(page, ".detail"), /30 siblings[\s\S]*12 of 30 siblings are shown/);
  assert.match(await text(page, ".columns .chosen"), /a⟨U\+E0041⟩b⟨U\+061C⟩c⟨U\+00AD⟩d/);
  await page.getByRole("button", { name: "Show more" }).click();
  assert.equal(await page.locator(".columns section").count(), 24);
  await go("#/tree/ways?node=way-28");
  assert.equal(await page.locator(".detail pre").first().evaluate((element) => getComputedStyle(element).direction), "rtl");
  assert.equal(await page.locator("#nodes .grow").first().evaluate((element) => getComputedStyle(element).unicodeBidi), "plaintext");
});

const ADDRESSES = () => ({
  sessions: "#/sessions", session: "#/session/harbour?turn=9", requests: "#/requests", request: `#/request/${seeded.requests[9]}`,
  "left-out": `#/request/${seeded.left}/left-out`, "what-if": `#/request/${seeded.left}/what-if?max=3000`, diff: `#/diff/${seeded.requests[8]}/${seeded.requests[9]}`,
  memory: "#/memory?q=ferry&max=120", tree: "#/tree/story?node=calm",
});

view("every view works on a screen of 360 pixels", { width: 360 }, async ({ page, go, check }) => {
  for (const [name, address] of Object.entries(ADDRESSES())) {
    await page.goto("about:blank");
    await go(address);
    await picture(page, `${name}-narrow`);
    await check();
    // Fields are wide enough to write in.
    for (const box of await page.locator("input[type=search]").all()) assert.ok((await box.boundingBox()).width > 200, name);
  }
  await page.getByRole("button", { name: "‹ Back to the list" }).click();
  await page.locator("#nodes").waitFor();
});

const allowFailures = { allow: (message) => /status of (40[134]|503)/.test(message) };

view("what is not there, and what fails, is said", allowFailures, async ({ page, go }) => {
  await go("#/request/00000000");
  await page.getByText("Not found").waitFor();
  await picture(page, "not-found");
  await go("#/session/nobody");
  await page.getByText("No such session").waitFor();
  await go("#/nowhere");
  await page.getByText("No such view").waitFor();
  await page.route("**/v1/sessions?*", (route) => route.fulfill({ status: 503, contentType: "application/json", body: JSON.stringify({ error: { code: "unavailable", message: "the store is gone", hint: "wait" } }) }));
  await page.goto("about:blank");
  await page.goto(server.base + "/#/sessions");
  await page.getByText("the store is gone").waitFor();
  await page.unroute("**/v1/sessions?*");
  await page.getByRole("button", { name: "Retry" }).click();
  await page.locator("#sessions").waitFor();
}, );

test("an empty store has designed empty views", async () => {
  const root = temporary();
  const server = await startServer(root);
  const watched = await open(browser.context, server.base);
  try {
    for (const [address, title] of [["#/sessions", "No sessions yet"], ["#/requests", "No requests yet"], ["#/memory", "Memory is empty"], ["#/trees", "No trees yet"]]) {
      await watched.go(address);
      await watched.page.getByText(title).waitFor();
      await accessible(watched.page, address);
    }
    await watched.page.screenshot({ path: new URL("../../target/inspector/empty-light.png", import.meta.url).pathname });
    await watched.check();
  } finally { await watched.page.close(); await server.stop(); discard(root); }
});

test("hostile content does not execute, and the layout holds", async () => {
  const root = temporary();
  project(root);
  const server = await startServer(root);
  const call = client(server.base);
  const { requests, label } = await seedHostile(call);
  const addresses = [
    "#/sessions", `#/session/${encodeURIComponent(label)}?turn=3`, `#/session/${encodeURIComponent(label)}?turn=2`, "#/requests",
    ...requests.flatMap((hash) => ["blocks", "left-out", "what-if?max=2000", "sent"].map((tab) => `#/request/${hash}/${tab}`)),
    `#/diff/${requests[0]}/${requests[1]}`, `#/diff/${requests[1]}/${requests[2]}`, "#/memory?q=hostile", "#/memory/records", "#/memory/graph?entity=evil", "#/trees",
    ...["h1<i>", "h2<i>", "h3<i>"].flatMap((node) => ["", "&view=siblings", "&view=path", "&view=request"].map((more) => `#/tree/${encodeURIComponent("hostile<b>")}?node=${encodeURIComponent(node)}${more}`)),
  ];
  try {
    for (const width of [1280, 360]) {
      // A huge event does not fit into a small window, and the server says so.
      const watched = await open(browser.context, server.base, { width, allow: (message) => /status of 422/.test(message) });
      for (const address of addresses) {
        await watched.page.goto("about:blank");
        await watched.go(address).catch((error) => { throw new Error(`${address}: ${error.message}`); });
        if (width === 1280) {
          const rows = watched.page.locator("[role=option], [role=treeitem]");
          if (await rows.count()) { await rows.last().click(); await settled(watched.page); }
        }
        await watched.check();
      }
      await watched.page.screenshot({ path: new URL(`../../target/inspector/hostile-${width}.png`, import.meta.url).pathname });
      await watched.page.close();
    }
  } finally { await server.stop(); discard(root); }
});

test("requests, sessions and trees are exported as one file that needs no server", async () => {
  const root = temporary();
  project(root);
  const server = await startServer(root);
  const call = client(server.base);
  const { requests, label } = await seedHostile(call);
  const first = await seed(call);
  const watched = await open(browser.context, server.base);
  const files = [];
  try {
    for (const [address, expected] of [
      [`#/request/${first.left}`, "src/weather.rs"], [`#/request/${requests[3]}`, "large &lt;b&gt;one"],
      ["#/session/harbour", "Who sails it?"], [`#/session/${encodeURIComponent(label)}`, "&lt;script&gt;"],
      ["#/tree/story", "crate of lemons"], [`#/tree/${encodeURIComponent("hostile<b>")}`, "&lt;script&gt;"],
    ]) {
      await watched.page.goto("about:blank");
      await watched.go(address);
      const [saved] = await Promise.all([watched.page.waitForEvent("download"), watched.page.getByRole("button", { name: "Export" }).click()]);
      const path = await saved.path();
      const file = readFileSync(path, "utf8");
      assert.ok(file.includes(expected), `${address}: ${expected}`);
      assert.ok(!/<script|<link|<img|<iframe|src=|https?:\/\//.test(file.replace(/<pre>[\s\S]*?<\/pre>/g, "").replace(/<(title|summary|h1|td|th)[^>]*>[\s\S]*?<\/\1>/g, "")), `${address} refers to something`);
      files.push(file);
    }
    await watched.check();
  } finally { await watched.page.close(); await server.stop(); discard(root); }
  // The server is gone.
  for (const file of files) {
    const page = await browser.context.newPage();
    const outside = [];
    page.on("request", (request) => { if (!request.url().startsWith("data:") && request.url() !== "about:blank") outside.push(request.url()); });
    await page.setContent(file);
    assert.equal(await page.evaluate(() => "broken" in window), false);
    assert.deepEqual(outside, []);
    await accessible(page, "exported file");
    await page.close();
  }
});

test("a key is asked for once and kept for the tab", async () => {
  const root = temporary();
  const key = execFileSync(COMMAND, ["key", "new", "--root", root], { encoding: "utf8" }).trim().split("\n").find((line) => line.startsWith("ctx_"));
  const server = await startServer(root);
  const watched = await open(browser.context, server.base, allowFailures);
  try {
    await watched.page.goto(server.base);
    await watched.page.getByRole("heading", { name: "API key" }).waitFor();
    await watched.page.getByLabel("Key", { exact: true }).fill("ctx_wrong");
    await watched.page.keyboard.press("Enter");
    await watched.page.getByText(/invalid/).first().waitFor();
    await accessible(watched.page, "key");
    await watched.page.getByLabel("Key", { exact: true }).fill(key);
    await watched.page.keyboard.press("Enter");
    await watched.page.getByText("No sessions yet").waitFor();
    await watched.page.reload();
    await watched.page.getByText("No sessions yet").waitFor();
    assert.equal(await watched.page.locator("dialog").count(), 0);
    assert.deepEqual(await watched.page.evaluate(() => [Object.keys(sessionStorage), Object.keys(localStorage)]), [["contexture-key"], ["contexture-theme"]]);
    await watched.check();
  } finally { await watched.page.close(); await server.stop(); discard(root); }
});

test("contexture inspect opens a session read-only, with a key after #", async () => {
  const inspect = await startServer(root, ["inspect", "harbour", "--no-browser"]);
  const watched = await open(browser.context, inspect.base, allowFailures);
  try {
    const refused = await fetch(inspect.base + "/v1/sessions");
    assert.equal(refused.status, 401);
    await watched.page.goto(inspect.base + inspect.fragment);
    await settled(watched.page);
    assert.match(watched.page.url(), /#\/session\/harbour$/, "the key is gone from the address");
    await watched.page.getByText("read-only").waitFor();
    const key = /key=([^&]+)/.exec(inspect.fragment)[1];
    const write = await fetch(inspect.base + "/v1/sessions", { method: "POST", headers: { authorization: `Bearer ${key}`, "content-type": "application/json" }, body: '{"label":"new"}' });
    assert.equal(write.status, 403);
    await watched.go("#/tree/story?node=calm");
    assert.equal(await watched.page.getByRole("button", { name: "Branch" }).count(), 0);
    await picture(watched.page, "inspect");
    await watched.check();
  } finally { await watched.page.close(); await inspect.stop(); }
});

test("contexture inspect without an argument imports what agents left on this machine", async () => {
  const root = temporary();
  const home = join(root, "home", ".claude", "projects", "-boats");
  mkdirSync(home, { recursive: true });
  const row = (type, uuid, parentUuid, content) => JSON.stringify({ type, uuid, parentUuid, timestamp: "2026-02-02T10:00:00Z", message: { id: "m" + uuid, role: type, model: "claude-x", content } }) + "\n";
  writeFileSync(join(home, "yesterday.jsonl"), row("user", "a", null, "Which boats are in the harbour?") + row("assistant", "b", "a", [{ type: "text", text: "Only the ferry." }]));
  const before = process.env.HOME;
  process.env.HOME = join(root, "home");
  const inspect = await startServer(root, ["inspect", "--no-browser"]);
  process.env.HOME = before;
  const watched = await open(browser.context, inspect.base, allowFailures);
  try {
    await watched.page.goto(inspect.base + inspect.fragment);
    await settled(watched.page);
    await watched.page.getByText("Which boats are in the harbour?").click();
    await settled(watched.page);
    await watched.page.getByText("Only the ferry.").first().waitFor();
    await watched.check();
  } finally { await watched.page.close(); await inspect.stop(); discard(root); }
});

test("a long session is loaded page by page, and only visible rows exist", async () => {
  const root = temporary();
  const server = await startServer(root);
  await seedLarge(client(server.base), 650);
  const watched = await open(browser.context, server.base);
  const { page } = watched;
  try {
    await watched.go("#/session/large");
    const requests = [];
    page.on("request", (request) => { if (request.url().includes("/history")) requests.push(request.url()); });
    const rows = () => page.locator("#turns .row").count();
    assert.ok((await rows()) < 60);
    await page.locator("#turns").focus();
    await page.keyboard.press("End");
    await page.locator("#turns .row", { hasText: "Question" }).filter({ has: page.locator(".index", { hasText: /^1$/ }) }).waitFor();
    assert.ok((await rows()) < 60);
    assert.ok(requests.some((url) => url.includes("before=")), String(requests));
    // A click into the strip goes to the turn there.
    const strip = page.locator(".strip canvas");
    const box = await strip.boundingBox();
    await strip.click({ position: { x: box.width / 2, y: 20 } });
    await page.waitForFunction(() => /Turn 32[4-7]/.test(document.querySelector(".detail").textContent));
    await settled(page);
    await watched.go("#/tree/large");
    assert.ok((await page.locator("#nodes .row").count()) < 80);
    await page.getByRole("button", { name: "Unfold all" }).click();
    await page.locator("#nodes").focus();
    await page.keyboard.press("End");
    await page.waitForFunction(() => document.querySelector('#nodes [aria-selected="true"]')?.getAttribute("aria-posinset") === "650");
    assert.ok((await page.locator("#nodes .row").count()) < 80);
    await watched.check();
  } finally { await page.close(); await server.stop(); discard(root); }
});

test("the first load is small", async () => {
  const watched = await open(browser.context, server.base);
  await watched.go("#/sessions");
  await watched.page.waitForLoadState("networkidle");
  // Also right for files that the browser has in its cache.
  const bytes = await watched.page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter((entry) => !entry.name.includes("/v1/")).reduce((sum, entry) => sum + entry.decodedBodySize, 0));
  await watched.page.close();
  assert.ok(bytes > 50_000 && bytes < 150_000, `${bytes} bytes`);
});
