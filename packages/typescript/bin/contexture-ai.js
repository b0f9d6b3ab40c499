#!/usr/bin/env node
// Runs the `contexture` command with the same arguments: `npx contexture-ai`.
const { spawnSync } = require("node:child_process");
const { findBinary } = require("../dist/binary.js");

let binary;
try {
  binary = findBinary();
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exit(2);
}
const ran = spawnSync(binary, process.argv.slice(2), { stdio: "inherit" });
if (ran.error) console.error(`error: cannot run ${binary}: ${ran.error.message}`);
process.exit(ran.status ?? 1);
