// node gpt_tokenizer.mjs NODE_MODULES FILE WARM_FILE RUNS
// Counts the o200k tokens of FILE with gpt-tokenizer; CPU time, vocabulary loaded, warmed up on
// other text, the package's own merge cache emptied before each run.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [modules, file, warmFile, runs] = process.argv.slice(2);
const require = createRequire(modules + '/');
const cpu = from => {
	const u = process.cpuUsage(from);
	return from ? (u.user + u.system) / 1000 : u;
};
const median = xs => [...xs].sort((a, b) => a - b)[xs.length >> 1];

const loading = process.cpuUsage();
const { countTokens, clearMergeCache } = require('gpt-tokenizer/encoding/o200k_base');
countTokens('one');
const load_cpu_ms = cpu(loading);

const text = readFileSync(file, 'utf8');
countTokens(readFileSync(warmFile, 'utf8'));
let tokens = 0;
const times = [];
for (let i = 0; i < Number(runs); i++) {
	clearMergeCache();
	const start = cpu();
	tokens = countTokens(text);
	times.push(cpu(start));
}
console.log(
	JSON.stringify({ tokens, bytes: Buffer.byteLength(text), cpu_ms: median(times), load_cpu_ms, runs: times })
);
