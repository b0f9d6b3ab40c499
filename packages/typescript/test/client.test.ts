import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, test } from "node:test";

import { emptyRoot } from "./support.js";
import { ApiError, BinaryNotFoundError, Client, InvalidAnswerError, LocalServer, ServerStartError, ServerUnavailableError, VERSION, findBinary, fit } from "../src/index.js";

const shared = new LocalServer({ root: emptyRoot() });
after(() => shared.stop());

test("a first answer takes few lines", async () => {
  const client = new Client({ root: emptyRoot() });
  await client.recordText({ source: "notes", text: "The dog is called Rufus." });
  const found = await client.recall({ query: "What is the dog called?", max_tokens: 500 });
  assert.match(found.content, /Rufus/);
  await client.close();
  assert.equal(client.server?.isRunning, false);
});

test("a conversation is recorded, forked and assembled", async () => {
  await using client = new Client({ root: emptyRoot() });
  await client.createSession({ label: "a b/ü?#%" });
  const turn = await client.recordTurn({
    label: "a b/ü?#%",
    messages: [
      { role: "user", content: "Why does the build fail?" },
      { role: "assistant", content: [{ type: "text", text: "foo is never linked." }] },
    ],
  });
  assert.equal(turn.number, 1);
  const history = await client.getHistory({ label: "a b/ü?#%", limit: 5 });
  assert.equal(history.turns[0]?.messages[0]?.role, "user");
  const fork = await client.forkSession({ label: "a b/ü?#%", body: { label: "b" } });
  assert.equal(fork.label, "b");
  const own = await client.assemble({ recipe: "broker", session: "b", event: "And?", model: "gpt-5.6" });
  // The format says which form the answer has.
  assert.equal(own.format === "json" && own.session_label, "b");
  const rendered = await client.assemble({ recipe: "broker", session: "b", event: "And?", model: "gpt-5.6", format: "openai-chat" });
  assert.ok(rendered.format !== "json" && JSON.stringify(rendered.request).includes("never linked"));
  assert.equal((await client.listSessions()).sessions.length, 2);
  await client.recordMemory({ records: [{ kind: "event", id: "e1", content: "x" }] });
  const exported = [];
  for await (const record of client.exportMemory({})) exported.push(record.id);
  assert.deepEqual(exported, ["e1"]);
});

test("errors name the field and what to do", async () => {
  const client = new Client({ server: shared });
  await assert.rejects(client.recall({ query: "x", max_tokens: -1 }), (error: unknown) => {
    assert.ok(error instanceof ApiError);
    assert.equal(error.field, "max_tokens");
    assert.equal(error.status, 400);
    assert.ok(error.requestId);
    return true;
  });
  await assert.rejects(client.getSession({ label: "nobody" }), /GET \/v1\/sessions/);
});

test("a request that fits is unchanged", async () => {
  const client = new Client({ server: shared });
  const request = { model: "gpt-5.6", messages: [{ role: "user", content: "hi" }] };
  assert.equal(await fit(request, { client }), request);
  const messages = Array.from({ length: 200 }, (_, at) => ({ role: at % 2 ? "assistant" : "user", content: "word ".repeat(100) }));
  const long = { model: "gpt-5.6", temperature: 0.5, messages: [...messages, { role: "user", content: "?" }] };
  const smaller = await fit(long, { client, maxTokens: 4000 });
  assert.ok(smaller.messages.length < 100);
  assert.equal(smaller.temperature, 0.5);
});

test("the arguments of Gemini's client are fitted", async () => {
  const client = new Client({ server: shared });
  const short = { model: "gemini-3.8-flash", contents: "hi", config: { systemInstruction: "Be brief." } };
  assert.equal(await fit(short, { client }), short);
  const texts = Array.from({ length: 200 }, (_, at) => ({ role: at % 2 ? "model" : "user", parts: [{ text: `${at} ${"word ".repeat(100)}` }] }));
  const tool = { name: "read", description: "long ".repeat(2000), parametersJsonSchema: { type: "object" } };
  const config = { systemInstruction: ["Be brief.", { text: "Be kind." }], tools: [{ functionDeclarations: [tool] }] };
  const long = { model: "gemini-3.8-flash", contents: [...texts, "And now?"], config };
  const smaller = await fit(long, { client, maxTokens: 8000 });
  assert.equal(smaller.config, config);
  assert.deepEqual(Object.keys(smaller), ["model", "contents", "config"]);
  assert.deepEqual(smaller.contents.at(-1), { role: "user", parts: [{ text: "And now?" }] });
  const without = await fit({ ...long, config: {} }, { client, maxTokens: 8000 });
  assert.ok(smaller.contents.length > 1 && smaller.contents.length < without.contents.length, "tools are counted");
});

test("a request is fitted in a directory that cannot be written", (context) => {
  if (process.getuid?.() === 0 && !canDropRights()) return context.skip("root can write everywhere");
  const root = emptyRoot();
  const script = `
    process.chdir(${JSON.stringify(root)});
    require("node:fs").chmodSync(".", 0o555);
    if (process.getuid() === 0) process.setuid(65534);
    const { fit } = require(${JSON.stringify(join(__dirname, "../src/index.ts"))});
    const request = { model: "gpt-5.6", messages: [{ role: "user", content: "hi" }] };
    fit(request).then((fitted) => console.log(fitted === request));`;
  const done = spawnSync(process.execPath, ["--import", "tsx", "-e", script], { encoding: "utf8", cwd: join(__dirname, "..") });
  assert.equal(done.stdout, "true\n", done.stderr);
});

/** Returns true if another user can run the command. */
function canDropRights(): boolean {
  return spawnSync(process.env.CONTEXTURE_BIN ?? "", ["--version"], { uid: 65534 }).status === 0;
}

test("there is no command for this platform", () => {
  const { CONTEXTURE_BIN, PATH } = process.env;
  try {
    delete process.env.CONTEXTURE_BIN;
    process.env.PATH = "";
    assert.throws(() => findBinary("plan9-mips"), (error: unknown) => error instanceof BinaryNotFoundError && /plan9-mips.*CONTEXTURE_URL/.test(error.message));
    process.env.CONTEXTURE_BIN = "/nowhere/contexture";
    assert.throws(() => findBinary(), /CONTEXTURE_BIN is \/nowhere\/contexture/);
  } finally {
    Object.assign(process.env, { CONTEXTURE_BIN, PATH });
  }
});

test("the port is in use, or the root does not exist", async () => {
  const busy = createServer().listen(0, "127.0.0.1");
  await once(busy, "listening");
  const { port } = busy.address() as AddressInfo;
  await assert.rejects(new LocalServer({ root: emptyRoot(), port }).url(), (error: unknown) => error instanceof ServerStartError && /cannot listen on/.test(error.message));
  busy.close();
  await assert.rejects(new Client({ root: "/nowhere/at/all" }).listSessions(), ServerStartError);
});

test("a killed server is an error, and then works again", async () => {
  await using client = new Client({ root: emptyRoot() });
  await client.createSession({ label: "s" });
  const events = client.listenToSession({ label: "s" });
  const first = events.next();
  setTimeout(() => process.kill(client.server?.pid ?? 0, "SIGKILL"), 300);
  await assert.rejects(first, (error: unknown) => error instanceof ServerUnavailableError && /next call starts it again/.test(error.message));
  assert.equal((await client.getSession({ label: "s" })).label, "s");
});

test("the server ends with a killed process", async () => {
  const script = `const { Client } = require(${JSON.stringify(join(__dirname, "../src/index.ts"))});
    const client = new Client({ root: ${JSON.stringify(emptyRoot())} });
    client.listSessions().then(async () => { console.log(await client.server.url()); setInterval(() => {}, 1000); });`;
  const child = spawn(process.execPath, ["--import", "tsx", "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  child.kill("SIGKILL");
  const client = new Client({ url: line.toString().trim() });
  for (let tries = 0; tries < 200; tries += 1) {
    try {
      await client.listSessions();
    } catch (error) {
      assert.ok(error instanceof ServerUnavailableError);
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail("the server outlived its client");
});

test("a process ends by itself while its server runs", () => {
  const script = `const { Client } = require(${JSON.stringify(join(__dirname, "../src/index.ts"))});
    new Client({ root: ${JSON.stringify(emptyRoot())} }).listSessions().then(() => console.log("done"));`;
  const ran = spawnSync(process.execPath, ["--import", "tsx", "-e", script], { encoding: "utf8", timeout: 60_000 });
  assert.equal(ran.stdout, "done\n", ran.stderr);
});

test("other servers, and servers of other versions", async () => {
  let body = "<html>It works!</html>";
  let headers: Record<string, string> = {};
  const other = createServer((_, response) => response.writeHead(200, headers).end(body)).listen(0, "127.0.0.1");
  await once(other, "listening");
  const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  await assert.rejects(new Client({ url }).listSessions(), (error: unknown) => error instanceof InvalidAnswerError && /a Contexture server/.test(error.message));
  body = '{"stacks": [], "a_new_field": true}';
  headers = { "contexture-version": "9.9.0" };
  const warned = once(process, "warning");
  assert.deepEqual((await new Client({ url }).listStacks()).stacks, []);
  const [warning] = (await warned) as [Error];
  assert.match(warning.message, /server has version 9\.9\.0 and contexture-ai has version/);
  other.close();
  await assert.rejects(new Client({ url: "http://127.0.0.1:1" }).listSessions(), ServerUnavailableError);
});

test("proxies of the environment are not used for this machine", async () => {
  const before = { ...process.env };
  for (const name of ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"]) process.env[name] = "http://127.0.0.1:9";
  try {
    assert.ok((await new Client({ server: shared }).listRecipes()).recipes.length);
  } finally {
    process.env = before;
  }
});

test("a proxy that Node itself uses", () => {
  const call = (env: Record<string, string>) => {
    const script = `const { Client } = require(${JSON.stringify(join(__dirname, "../src/index.ts"))});
      const client = new Client({ root: ${JSON.stringify(emptyRoot())}, timeoutMs: 20_000 });
      client.listRecipes().then((found) => console.log(found.recipes.length > 0), (error) => console.log(error.message));`;
    return spawnSync(process.execPath, ["--import", "tsx", "-e", script], { encoding: "utf8", timeout: 60_000, env: { ...process.env, ...env } }).stdout.trim();
  };
  const proxied = { NODE_USE_ENV_PROXY: "1", HTTP_PROXY: "http://127.0.0.1:9", NO_PROXY: "", no_proxy: "" };
  // Versions of Node that do not know the variable call the server.
  assert.match(call(proxied), /^true$|set NO_PROXY=127\.0\.0\.1,localhost/);
  assert.equal(call({ ...proxied, NO_PROXY: "127.0.0.1,localhost" }), "true");
});

test("a stream that is left early leaves the client usable", async () => {
  await using client = new Client({ root: emptyRoot() });
  await client.recordMemory({ records: Array.from({ length: 50 }, (_, at) => ({ kind: "event" as const, id: `e${at}`, content: `event ${at}` })) });
  for await (const record of client.exportMemory({})) {
    assert.ok(record.id);
    break;
  }
  assert.ok((await client.listRecipes()).recipes.length);
});

test("cancelled requests leave the client usable", async () => {
  const client = new Client({ server: shared });
  const request = { model: "gpt-5.6", messages: [{ role: "user", content: "word ".repeat(200_000) }] };
  await assert.rejects(client.fit({ request }, { signal: AbortSignal.timeout(5) }), { name: "TimeoutError" });
  await assert.rejects(client.fit({ request }, { signal: AbortSignal.abort() }), { name: "AbortError" });
  assert.ok((await client.listRecipes()).recipes.length);
});

test("a root with a name that is not ASCII", async () => {
  const root = join(emptyRoot(), "café 🗂");
  mkdirSync(root);
  await using client = new Client({ root });
  assert.deepEqual((await client.listSessions()).sessions, []);
});

test("a current directory with a name that is not UTF-8", { skip: process.platform !== "linux" }, () => {
  // The package as it is built: the compiler of the tests does not run in such a directory.
  const script = `const { Client } = require(${JSON.stringify(join(__dirname, "../dist/index.js"))});
    const client = new Client();
    client.createSession({ label: "s" }).then((made) => console.log(made.label), (error) => console.log(error.message));`;
  const root = Buffer.concat([Buffer.from(`${emptyRoot()}/caf`), Buffer.from([0xe9])]);
  mkdirSync(root);
  // A shell changes the directory: Node has no other way to give such a name to a process.
  const go = 'cd "$1"/caf* && exec "$2" -e "$3"';
  const parent = root.subarray(0, root.lastIndexOf("/")).toString();
  const ran = spawnSync("sh", ["-c", go, "sh", parent, process.execPath, script], { encoding: "utf8", timeout: 60_000 });
  assert.equal(ran.stdout.trim(), "s", ran.stderr);
  assert.ok(existsSync(Buffer.concat([root, Buffer.from("/.contexture")])));
});

test("settings that exclude each other, and the version", () => {
  assert.throws(() => new Client({ url: "http://127.0.0.1:1", root: "." }), /url cannot be combined/);
  assert.equal(VERSION, (require("../package.json") as { version: string }).version);
});
