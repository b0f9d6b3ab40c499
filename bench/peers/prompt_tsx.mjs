// node prompt_tsx.mjs NODE_MODULES BLOCKS.json WARM.json BUDGET messages|chunks RUNS
// Packs [{id, priority, text}, ...] into BUDGET tokens with @vscode/prompt-tsx, counting with
// gpt-tokenizer (o200k). CPU time of rendering alone: vocabulary loaded, warmed up on other
// blocks, nothing cached from one run to the next.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [modules, file, warmFile, budgetText, shape, runs] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { countTokens, clearMergeCache } = require('gpt-tokenizer/encoding/o200k_base');
const tsx = require('@vscode/prompt-tsx');
const cpu = from => {
	const u = process.cpuUsage(from);
	return from ? (u.user + u.system) / 1000 : u;
};
const median = xs => [...xs].sort((a, b) => a - b)[xs.length >> 1];

const content = m => (typeof m.content === 'string' ? m.content : (m.content ?? []).map(p => p.text ?? '').join(''));
const tokenizer = {
	mode: tsx.OutputMode.OpenAI,
	tokenLength: part => (part.type === tsx.Raw.ChatCompletionContentPartKind.Text ? countTokens(part.text) : 0),
	countMessageTokens: message => 3 + countTokens(content(message)),
};

class Separate extends tsx.PromptElement {
	render() {
		return vscpp(vscppf, null, ...this.props.blocks.map(b => vscpp(tsx.UserMessage, { priority: b.priority }, b.text)));
	}
}
class OneMessage extends tsx.PromptElement {
	render() {
		return vscpp(
			tsx.UserMessage,
			null,
			...this.props.blocks.map(b => vscpp(tsx.TextChunk, { priority: b.priority }, b.text))
		);
	}
}

const element = shape === 'messages' ? Separate : OneMessage;
const render = (blocks, budget) =>
	tsx.renderPrompt(element, { blocks }, { modelMaxPromptTokens: budget }, tokenizer, undefined, undefined, tsx.OutputMode.OpenAI);

const blocks = JSON.parse(readFileSync(file, 'utf8'));
const budget = budgetText.endsWith('%')
	? Math.floor((countTokens(blocks.map(b => b.text).join('')) * parseFloat(budgetText)) / 100)
	: Number(budgetText);
await render(JSON.parse(readFileSync(warmFile, 'utf8')), budget);

let result;
const times = [];
for (let i = 0; i < Number(runs); i++) {
	clearMergeCache();
	const start = cpu();
	result = await render(blocks, budget);
	times.push(cpu(start));
}
const texts = result.messages.map(content);
const all = texts.join('\n');
const kept = blocks.filter(b => all.includes(b.text.trimEnd())).map(b => b.id);
console.log(
	JSON.stringify({
		items: blocks.length,
		budget,
		kept: kept.length,
		kept_ids: kept,
		tokens: texts.reduce((n, t) => n + 3 + countTokens(t), 0),
		reported_tokens: result.tokenCount,
		cpu_ms: median(times),
		runs: times,
	})
);
