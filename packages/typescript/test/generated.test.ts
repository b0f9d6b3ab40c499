import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { emptyRoot } from "./support.js";
import { LocalServer } from "../src/index.js";

const PACKAGE = join(__dirname, "..");
const bin = (name: string) => join(PACKAGE, "node_modules/.bin", name);
const server = new LocalServer({ root: emptyRoot() });
const work = emptyRoot();
const document = join(work, "openapi.json");

before(async () => {
  const url = await server.url();
  writeFileSync(document, await (await fetch(`${url}/openapi.json`)).text());
  symlinkSync(join(PACKAGE, "node_modules"), join(work, "node_modules"));
  writeFileSync(join(work, "package.json"), '{"type": "module"}');
});
after(() => server.stop());

test("the generated code is current", () => {
  const out = join(work, "out");
  mkdirSync(out);
  execFileSync(process.execPath, [join(PACKAGE, "scripts/generate.mjs"), document, out]);
  for (const name of ["api.ts", "operations.ts"]) {
    const isSame = readFileSync(join(out, name), "utf8") === readFileSync(join(PACKAGE, "src", name), "utf8");
    assert.ok(isSame, `${name} is not current: run packages/generate`);
  }
});

const CALLS = {
  "openapi-fetch": `
    import createClient from "openapi-fetch";
    import type { paths } from "./api.js";
    const client = createClient<paths>({ baseUrl: process.env.URL ?? "" });
    const take = <T>(answer: { data?: T; error?: unknown }): T => {
      if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
      return answer.data;
    };
    const messages = [{ role: "user" as const, content: "My dog is called Rufus." }];
    const rendered = take(await client.POST("/v1/assemble", { body: { messages, model: "gpt-5.6", format: "openai-chat" } }));
    const own = take(await client.POST("/v1/assemble", { body: { messages, model: "gpt-5.6" } }));
    // The format says which form the answer has.
    if (rendered.format === "json" || own.format !== "json") throw new Error("wrong form");
    const tokens: number = rendered.tokens + own.token_budget.used.total;
    take(await client.POST("/v1/sessions", { body: { label: "oa" } }));
    const path = { label: "oa" };
    take(await client.POST("/v1/sessions/{label}/turns", { params: { path }, body: { messages } }));
    const history = take(await client.GET("/v1/sessions/{label}/history", { params: { path } }));
    take(await client.POST("/v1/memory/records", { body: { records: [{ kind: "event", content: "The dog is called Rufus." }] } }));
    const found = take(await client.POST("/v1/memory/recall", { body: { query: "dog", max_tokens: 500 } }));
    const fitted = take(await client.POST("/v1/fit", { body: { request: { model: "gpt-5.6", messages } } }));
    console.log(tokens > 0, history.turns[0]?.messages[0]?.role, found.content.includes("Rufus"), fitted.changed);`,
  "hey-api": `
    import { client } from "./hey/client.gen.js";
    import { assemble, createSession, fit, getHistory, recall, recordMemory, recordTurn } from "./hey/index.js";
    client.setConfig({ baseUrl: process.env.URL ?? "" });
    const o = { throwOnError: true } as const;
    const messages = [{ role: "user" as const, content: "My dog is called Rufus." }];
    const { data: rendered } = await assemble({ ...o, body: { messages, model: "gpt-5.6", format: "openai-chat" } });
    const { data: own } = await assemble({ ...o, body: { messages, model: "gpt-5.6" } });
    if (rendered.format === "json" || own.format !== "json") throw new Error("wrong form");
    const tokens: number = rendered.tokens + own.token_budget.used.total;
    await createSession({ ...o, body: { label: "hey" } });
    const path = { label: "hey" };
    await recordTurn({ ...o, path, body: { messages } });
    const { data: history } = await getHistory({ ...o, path });
    await recordMemory({ ...o, body: { records: [{ kind: "event", content: "The dog is called Rufus." }] } });
    const { data: found } = await recall({ ...o, body: { query: "dog", max_tokens: 500 } });
    const { data: fitted } = await fit({ ...o, body: { request: { model: "gpt-5.6", messages } } });
    console.log(tokens > 0, history.turns[0]?.messages[0]?.role, found.content.includes("Rufus"), fitted.changed);`,
};

for (const [name, calls] of Object.entries(CALLS)) {
  test(`a client of ${name} compiles and works`, async () => {
    // Generated without options.
    if (name === "hey-api") execFileSync(bin("openapi-ts"), ["-i", document, "-o", join(work, "hey")], { cwd: work });
    else execFileSync(bin("openapi-typescript"), [document, "-o", join(work, "api.ts")], { cwd: work });
    const file = join(work, `${name}.ts`);
    writeFileSync(file, calls);
    const strict = ["--noEmit", "--strict", "--target", "es2022", "--module", "preserve", "--moduleResolution", "bundler", "--skipLibCheck", "--types", "node"];
    const compiled = spawnSync(bin("tsc"), [...strict, file], { cwd: work, encoding: "utf8" });
    assert.equal(compiled.stdout, "");
    const env = { ...process.env, URL: await server.url() };
    const ran = spawnSync(process.execPath, ["--import", "tsx", file], { cwd: work, encoding: "utf8", env });
    assert.equal(ran.stdout, "true user true false\n", ran.stderr);
  });
}

/** Builds the package and puts it where a program finds it. */
function installed(): string {
  execFileSync(bin("tsc"), ["-p", join(PACKAGE, "tsconfig.build.json")]);
  const root = emptyRoot();
  mkdirSync(join(root, "node_modules"));
  for (const name of readdirSync(join(PACKAGE, "node_modules"))) {
    if (!name.startsWith(".")) symlinkSync(join(PACKAGE, "node_modules", name), join(root, "node_modules", name));
  }
  symlinkSync(PACKAGE, join(root, "node_modules/contexture-ai"));
  writeFileSync(join(root, "package.json"), '{"type": "module"}');
  return root;
}

test("the examples run, and the README shows parts of them", () => {
  const root = installed();
  const programs: string[] = [];
  const expected: Record<string, RegExp> = { "memory.ts": /Rufus/, "ai-sdk.ts": /I was sent \d+ messages/ };
  for (const [name, printed] of Object.entries(expected)) {
    const text = readFileSync(join(PACKAGE, "examples", name), "utf8");
    programs.push(text);
    writeFileSync(join(root, name), text);
    const ran = spawnSync(process.execPath, ["--import", "tsx", name], { cwd: root, encoding: "utf8" });
    assert.match(ran.stdout, printed, ran.stderr);
  }
  for (const readme of [join(PACKAGE, "README.md"), join(PACKAGE, "../../README.md")]) {
    const shown = [...readFileSync(readme, "utf8").matchAll(/```ts\n(.*?)```/gs)].map((found) => found[1] ?? "");
    assert.ok(shown.length);
    for (const block of shown) assert.ok(programs.some((program) => program.includes(block)), block);
  }
});

test("types and code work with import and with require", () => {
  const root = installed();
  const use = `import { Client, type Schemas, VERSION } from "contexture-ai";
    import { prepareStep } from "contexture-ai/ai";
    const message: Schemas["Message"] = { role: "user", content: VERSION };
    console.log(typeof Client, typeof prepareStep, message.role);`;
  for (const name of ["use.mts", "use.cts"]) {
    writeFileSync(join(root, name), use);
    const strict = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"];
    const compiled = spawnSync(bin("tsc"), [...strict, name], { cwd: root, encoding: "utf8" });
    assert.equal(compiled.stdout, "");
    const ran = spawnSync(process.execPath, [name.replace("ts", "js")], { cwd: root, encoding: "utf8" });
    assert.equal(ran.stdout, "function function user\n", ran.stderr);
  }
});

test("the command runs", () => {
  const ran = spawnSync(process.execPath, [join(PACKAGE, "bin/contexture-ai.js"), "--version"], { encoding: "utf8" });
  assert.match(ran.stdout, /^contexture \d/, ran.stderr);
});
