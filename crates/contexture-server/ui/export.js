// One request, session or tree as one HTML file that opens without a server. The
// file has no code: what can be opened and closed in it is HTML.

import { at, get } from "./api.js";
import { blockText, brief, contentText, count, dollars, many, percent, time, visible } from "./format.js";
import { byLayer, download, note } from "./parts.js";

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** Returns text that is safe anywhere in HTML. */
const safe = (text) => visible(text).replace(/[&<>"']/g, (c) => ESCAPES[c]);

const STYLE = `
:root{color-scheme:light dark;--ink:#1c2024;--soft:#5f6871;--line:#dfe3e6;--paper:#fff;--code:#f6f7f8;--accent:#0f766e}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaec;--soft:#9aa4ad;--line:#30363c;--paper:#14171a;--accent:#2dd4bf}}
body{font:14px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}small,.soft{color:var(--soft)}code,pre{font:12.5px/1.5 ui-monospace,monospace}
pre{background:#8881;padding:.7rem;border-radius:6px;white-space:pre-wrap;overflow-wrap:anywhere;margin:.4rem 0}
details{border-top:1px solid var(--line);padding:.35rem 0}summary{cursor:pointer;overflow-wrap:anywhere}summary span{float:right;color:var(--soft);margin-left:1rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
.branch{margin-left:1rem;border-left:1px solid var(--line);padding-left:.7rem}`;

function page(title, body) {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${safe(title)}</title><style>${STYLE}</style></head><body>
${body}
<p class="soft">Exported by Contexture on ${safe(time(new Date().toISOString()))}.</p>
</body></html>
`;
}

const facts = (rows) => `<table>${rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => `<tr><th scope="row">${safe(name)}</th><td>${safe(value)}</td></tr>`).join("")}</table>`;

const block = (title, side, text, open = false) => `<details${open ? " open" : ""}><summary>${safe(title)}<span>${safe(side)}</span></summary><pre>${safe(text)}</pre></details>`;

/** Returns the page of a request. */
export function requestPage(report) {
  const { snapshot, blocks, excluded, budget } = report;
  const used = blocks.reduce((sum, one) => sum + one.tokens, 0);
  const layers = byLayer(blocks);
  const free = Math.max(0, (budget?.max ?? used) - used);
  const bar = `<svg width="100%" height="24" role="img" aria-label="The window by layer" preserveAspectRatio="none" viewBox="0 0 1000 24">${(() => {
    let x = 0;
    return layers.map((layer, i) => {
      const width = (1000 * layer.tokens) / Math.max(1, used + free);
      const part = `<rect x="${x.toFixed(2)}" y="0" width="${Math.max(0, width - 1).toFixed(2)}" height="24" fill="#0f766e" opacity="${[1, 0.75, 0.55, 0.4][i % 4]}"><title>${safe(layer.name)}: ${count(layer.tokens)} tokens</title></rect>`;
      x += width;
      return part;
    }).join("");
  })()}</svg>`;
  const body = `<h1>Request ${safe(brief(snapshot.hash))}</h1>
${facts([["Session", snapshot.session], ["Assembled", time(snapshot.created_at)], ["Model", snapshot.model], ["Recipe", report.recipe], ["Tokens", `${count(used)}${budget ? ` of ${count(budget.max)} (${percent(used, budget.max)})` : ""}`], ["Hash", snapshot.hash]])}
<h2>The window by layer</h2>${bar}
<table>${layers.map((layer) => `<tr><td>${safe(layer.name)}</td><td>${many(layer.blocks, "block")}</td><td>${count(layer.tokens)} tokens</td></tr>`).join("")}
${budget?.reserved ? `<tr><td class="soft">reserved for the response</td><td></td><td>${count(budget.reserved)} tokens</td></tr>` : ""}${budget?.max ? `<tr><td class="soft">free</td><td></td><td>${count(Math.max(0, budget.max - used - (budget.reserved ?? 0)))} tokens</td></tr>` : ""}</table>
<h2>In the request: ${many(blocks.length, "block")}</h2>
${blocks.map((one) => block(`${one.path ?? one.id} · ${one.layer} · ${one.row?.reason ?? "fits whole"}`, `${count(one.tokens)} tokens`, one.text ?? "")).join("\n")}
<h2>Left out: ${report.has_report ? many(excluded.length + report.excluded_omitted, "candidate") : "unknown"}</h2>
<table>${excluded.map((row) => `<tr><td>${safe(row.path ?? row.id)}<br><small>${safe(row.layer)}</small></td><td>${row.estimated ? "about " : ""}${count(row.tokens)}</td><td>${safe(row.reason)}</td></tr>`).join("")}</table>
${report.warnings.length ? `<h2>Warnings</h2><ul>${report.warnings.map((warning) => `<li><code>${safe(warning.code)}</code> ${safe(warning.message)}</li>`).join("")}</ul>` : ""}`;
  return page(`Request ${brief(snapshot.hash)}`, body);
}

export function exportRequest(report) {
  download(`request-${brief(report.snapshot.hash)}.html`, "text/html", requestPage(report));
}

/** Returns the page of a session from its turns, oldest first. */
export function sessionPage(session, cost, turns) {
  const usage = new Map(cost.turns.map((turn) => [turn.turn_id, turn]));
  const body = `<h1>Session ${safe(session.label)}</h1>
${facts([["Task", session.task], ["Turns", count(session.turns)], ["Cost", dollars(cost.dollars)], ["Cache hits", percent(cost.total.cached_input_tokens, cost.total.input_tokens)], ["Input tokens", count(cost.total.input_tokens)], ["Output tokens", count(cost.total.output_tokens)], ["Updated", time(session.updated_at)]])}
${turns.map((turn) => {
    if (turn.kind !== "normal") return block("Compaction", turn.compaction?.trigger ?? "", turn.compaction?.summary ?? "");
    const spent = usage.get(turn.id);
    const side = spent ? `${count(spent.input_tokens)} in, ${count(spent.cached_input_tokens)} cached, ${dollars(spent.dollars)}` : "";
    const messages = turn.messages.map((message) => {
      const blocks = Array.isArray(message.content) ? message.content.map((one) => (one.type === "text" ? blockText(one) : `[${one.type}] ${blockText(one)}`)).join("\n") : contentText(message.content);
      return `<p><b>${safe(message.role)}</b></p><pre>${safe(blocks)}</pre>`;
    });
    return `<details open><summary><b>Turn ${count(turn.depth)}</b> <small>${safe(time(turn.created_at))}</small><span>${safe(side)}</span></summary>${messages.join("")}</details>`;
  }).join("\n")}`;
  return page(`Session ${session.label}`, body);
}

export async function exportSession(session, cost) {
  try {
    let turns = [], before = null;
    do {
      const page = await get(at`/v1/sessions/${session.label}/history?limit=1000` + (before ? `&before=${before}` : ""));
      turns = page.turns.concat(turns);
      before = page.next;
    } while (before);
    download(`session-${session.label}.html`, "text/html", sessionPage(session, cost, turns));
  } catch (error) { note(error.message); }
}

/** Returns the page of a tree. Lines of single children are not nested. */
export function treePage(document, tree) {
  const out = [];
  const stack = [...tree.roots].reverse().map((place) => ({ place }));
  while (stack.length) {
    const { place, end } = stack.pop();
    if (end) { out.push(end); continue; }
    const flags = Object.entries(place.flags).filter(([, value]) => value === true).map(([name]) => name);
    out.push(`<details open><summary><b>${safe(place.shown.author)}</b> <small>${safe(place.shown.local_id ?? place.id)}${flags.length ? ` · ${safe(flags.join(", "))}` : ""}${place.versions.length > 1 ? ` · version ${place.versions.length}` : ""}</small></summary><pre>${safe(place.text)}</pre></details>`);
    if (place.children.length > 1)
      [...place.children].reverse().forEach((child) => stack.push({ end: "</div>" }, { place: child }, { end: '<div class="branch">' }));
    else if (place.children.length === 1) stack.push({ place: place.children[0] });
  }
  return page(document.tree.title || document.tree.id, `<h1>${safe(document.tree.title || document.tree.id)}</h1>
${facts([["Tree", document.tree.id], ["Mode", document.tree.mode], ["Nodes", count(document.nodes.length)], ["System context", document.tree.system_context]])}
${out.join("\n")}`);
}

export function exportTree(document, tree) {
  download(`tree-${document.tree.id}.html`, "text/html", treePage(document, tree));
}
