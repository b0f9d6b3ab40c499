// One tree: read, search, branch, edit, exclude, bookmark, prune, compare
// siblings, follow a path, and see the request for a node.

import { at, get, patch, post, readOnly } from "./api.js";
import { contentText, count, isCut, line, many, short, time, visible } from "./format.js";
import { Continue } from "./continue.js";
import { exportTree } from "./export.js";
import { leafOf, pathTo, placeOfNode, shape } from "./trees.js";
import { Badge, DiffText, Empty, Fact, Form, List, Loaded, Search, Split, Text, WindowBar, byLayer, download, html, note, setQuery, to, useEffect, useKeys, useLoad, useMemo, useState } from "./parts.js";

// A larger tree opens with its side branches folded.
const MOST_OPEN = 300;

export function Tree({ parts: [id], query }) {
  const loaded = useLoad(async (signal) => {
    const document = await get(at`/v1/trees/${id}/document`, signal);
    return { document, tree: await shape(document) };
  }, [id]);
  const reload = async () => {
    const document = await get(at`/v1/trees/${id}/document`);
    loaded.set({ document, tree: await shape(document) });
  };
  return html`<${Loaded} of=${loaded} lines=${10}>${({ document, tree }) => html`<${TreeView} document=${document} tree=${tree} query=${query} reload=${reload} />`}<//>`;
}

function TreeView({ document, tree, query, reload }) {
  const { all, places } = tree;
  const saved = document.paths ?? [];
  const start = (placeOfNode(tree, query.node) ?? placeOfNode(tree, saved[0]?.head) ?? tree.roots[0])?.id;
  const [current, setCurrent] = useState(start);
  const [folded, setFolded] = useState(() => {
    if (all.length <= MOST_OPEN) return new Set();
    const path = new Set(pathTo(places.get(start) ?? all[0]).map((place) => place.id));
    return new Set(all.filter((place) => place.children.length && !path.has(place.id)).map((place) => place.id));
  });
  const [hidden, setHidden] = useState(true);
  const [wanted, setWanted] = useState(query.q ?? "");
  const [open, setOpen] = useState(Boolean(query.node));
  const [view, setView] = useState(query.view ?? "node");
  const [form, setForm] = useState(null);
  const place = places.get(current);
  const onPath = useMemo(() => new Set(place ? pathTo(place).map((one) => one.id) : []), [place]);
  const hits = useMemo(() => {
    const words = wanted.toLowerCase();
    return words ? all.filter((one) => one.text.toLowerCase().includes(words) || one.id.toLowerCase().startsWith(words)) : [];
  }, [wanted, tree]);
  const hit = useMemo(() => new Set(hits.map((one) => one.id)), [hits]);
  const rows = useMemo(() => {
    if (wanted) return hits.filter((one) => !hidden || !one.flags.pruned);
    const rows = [], stack = [...tree.roots].reverse();
    while (stack.length) {
      const one = stack.pop();
      if (hidden && one.flags.pruned) continue;
      rows.push(one);
      if (!folded.has(one.id)) for (let i = one.children.length - 1; i >= 0; i--) stack.push(one.children[i]);
    }
    return rows;
  }, [tree, folded, hidden, wanted, hits]);
  const index = useMemo(() => new Map(rows.map((one, i) => [one.id, i])), [rows]);
  const show = (one) => {
    if (!one) return;
    // What is folded above it is opened.
    const above = pathTo(one).slice(0, -1).filter((up) => folded.has(up.id));
    if (above.length) setFolded(new Set([...folded].filter((id) => !above.some((up) => up.id === id))));
    setCurrent(one.id);
    setQuery({ node: one.id });
  };
  const select = (i) => { setOpen(true); show(rows[i]); };
  const fold = (one = place) => {
    if (!one?.children.length) return;
    const next = new Set(folded);
    next.has(one.id) ? next.delete(one.id) : next.add(one.id);
    setFolded(next);
  };
  const sibling = (step) => () => {
    const all = (place?.parent?.children ?? tree.roots).filter((one) => !hidden || !one.flags.pruned);
    show(all[(all.indexOf(place) + step + all.length) % all.length]);
  };
  const nextHit = (step) => () => {
    if (!rows.length) return;
    const i = index.get(current) ?? -1;
    show(rows[(i + step + rows.length) % rows.length]);
  };
  const change = (work) => work.then(reload).then(() => true);
  const flag = (name) => async () => {
    if (readOnly || !place) return;
    const value = !place.flags[name];
    try {
      await change(patch(at`/v1/trees/${document.tree.id}/nodes/${place.shown.id}`, { [name]: value }));
      note(`${value ? "" : "No longer "}${name}`);
    } catch (error) { note(error.message); }
  };
  const restore = async (version) => {
    try {
      await change(patch(at`/v1/trees/${document.tree.id}/nodes/${version.id}`, { pruned: false }));
      note("Restored the version");
    } catch (error) { note(error.message); }
  };
  const ask = (name) => () => { if (!readOnly && (place || name === "branch")) setForm(name); };
  const turn = (name) => () => { const next = view === name ? "node" : name; setView(next); setOpen(true); setQuery({ view: next === "node" ? "" : next }); };
  useKeys("Move", [
    ["ArrowLeft h", "to the parent", () => show(place?.parent)],
    ["ArrowRight l", "to the first child", () => show(place?.children[0])],
    ["[", "to the sibling before", sibling(-1)],
    ["]", "to the next sibling", sibling(1)],
    ["End g", "to the end of the longest branch", () => place && show(leafOf(place))],
    ["n", "next match", nextHit(1)],
    ["N", "previous match", nextHit(-1)],
    [" ", "fold or unfold", () => fold()],
  ]);
  useKeys("Look", [
    ["p", "read the path to the node", turn("path")],
    ["c", "compare siblings", turn("siblings")],
    ["r", "see the request for the node", turn("request")],
    ["u", "show or hide pruned nodes", () => setHidden(!hidden)],
  ]);
  useKeys("Change", readOnly ? [] : [
    ["a", "add a node after this one", ask("branch")],
    ["m", "continue with a model", ask("continue")],
    ["e", "edit: add a version", ask("edit")],
    ["x", "exclude from requests, or include", flag("excluded")],
    ["d", "prune, or restore", flag("pruned")],
    ["b", "bookmark", flag("bookmarked")],
  ]);
  const row = (i) => {
    const one = rows[i];
    return html`<div class=${"cells node" + (one.flags.excluded ? " excluded" : "") + (one.flags.pruned ? " pruned" : "")} style=${{ paddingLeft: Math.min(one.level, 24) * 14 + 8 + "px" }}>
      <span class="joint" aria-hidden="true">${wanted || !one.parent ? "" : one.parent.children.length > 1 ? "├" : "│"}</span>
      ${one.children.length > 0 && !wanted && (folded.has(one.id) || !one.parent || one.children.length > 1 || one.parent.children.length > 1) ? html`<button type="button" class="fold" tabindex="-1" aria-label=${folded.has(one.id) ? "Unfold" : "Fold"} onClick=${() => fold(one)}>${folded.has(one.id) ? "▸" : "▾"}</button>` : html`<span class="fold"></span>`}
      <span class=${"author " + one.shown.author} title=${one.shown.author}>${one.shown.author === "model" ? "M" : "H"}</span>
      <span class=${"grow" + (onPath.has(one.id) ? " on-path" : "")}>${line(one.text, 160) || "empty"}</span>
      ${one.flags.bookmarked && html`<span title="Bookmarked">★</span>`}
      ${one.versions.length > 1 && html`<${Badge}>v${one.versions.length}<//>`}
      ${one.children.length > 1 && html`<${Badge} kind="accent" title=${`${one.children.length} branches`}>${one.children.length}<//>`}
      ${folded.has(one.id) && !wanted && html`<small>${count(one.size - 1)} below</small>`}</div>`;
  };
  const pruned = all.filter((one) => one.flags.pruned).length;
  const list = html`<${List} id="nodes" role="tree" label="Nodes" size=${rows.length} height=${32} selected=${index.get(current) ?? -1} onSelect=${select} onOpen=${() => fold()} row=${row}
    attributes=${(i) => ({ "aria-level": rows[i].level + 1, ...(rows[i].children.length && !wanted ? { "aria-expanded": folded.has(rows[i].id) ? "false" : "true" } : {}) })} />`;
  const foldAll = () => setFolded(folded.size ? new Set() : new Set(all.filter((one) => one.children.length > 1).flatMap((one) => one.children.filter((child) => child.children.length).map((child) => child.id))));
  return html`<div class="page">
    <div class="head"><h1 title=${line(document.tree.title, 1000)}>${line(document.tree.title || document.tree.id)}</h1>
      <${Search} value=${wanted} onInput=${(text) => { setWanted(text); setQuery({ q: text }); }} label="Search in the tree"><span class="muted">${wanted && many(hits.length, "match", "matches")}</span><//>
      <span class="muted grow">${many(all.length, "node")}${pruned ? html`, <button type="button" class="link" onClick=${() => setHidden(!hidden)}>${hidden ? "show" : "hide"} ${count(pruned)} pruned</button>` : ""}</span>
      ${saved.length > 0 && html`<label class="line">Path <select value="" onChange=${(event) => { const path = saved.find((one) => one.name === event.target.value); if (path) { show(placeOfNode(tree, path.head)); setView("path"); setOpen(true); } }}>
        <option value="">choose…</option>${saved.map((path) => html`<option key=${path.name} value=${path.name}>${visible(path.name)}</option>`)}</select></label>`}
      <button type="button" onClick=${foldAll}>${folded.size ? "Unfold all" : "Fold"}</button>
      <button type="button" onClick=${() => download(document.tree.id + ".json", "application/json", JSON.stringify(document, null, 2))}>JSON</button>
      <button type="button" onClick=${() => exportTree(document, tree)}>Export</button></div>
    ${all.length === 0 ? html`<${Empty} title="The tree is empty">${!readOnly && html`<button type="button" class="primary" onClick=${() => setForm("branch")}>Write the first node</button>`}<//>`
      : rows.length === 0 ? html`<${Empty} title="Nothing matches">No node contains “${visible(wanted)}”.<//>`
      : html`<${Split} list=${list} open=${open && Boolean(place)} close=${() => setOpen(false)} title="Node" detail=${place && html`
        <${Bar} view=${view} turn=${turn} place=${place} ask=${ask} flag=${flag} />
        ${view === "path" ? html`<${Reading} place=${place} show=${show} />`
          : view === "siblings" ? html`<${Siblings} place=${place} roots=${tree.roots} show=${show} />`
          : view === "request" ? html`<${NodeRequest} document=${document} place=${place} />`
          : html`<${NodeDetail} tree=${document.tree.id} place=${place} wanted=${wanted} show=${show} restore=${restore} />`}`} />`}
    ${form === "branch" && html`<${Form} title=${place ? "Add a node" : "Write the first node"} action="Add" close=${() => setForm(null)} fields=${[
        { name: "content", label: "Content", lines: 8, required: true },
        { name: "author", label: "Author", options: ["human", "model"], value: place?.shown.author === "human" ? "model" : "human" }]}
      save=${async (values) => {
        const head = await post(at`/v1/trees/${document.tree.id}/nodes`, { ...values, after: place ? [place.shown.id] : [] });
        await reload();
        setCurrent(head.id);
        setQuery({ node: head.id });
      }}>${place && html`<p class="muted">After: ${line(place.text, 160)}</p>`}<//>`}
    ${form === "continue" && html`<${Continue} document=${document} place=${place} close=${() => setForm(null)} done=${async (first, number) => {
      await reload();
      if (first) { setCurrent(first); setQuery({ node: first }); note(`Added ${many(number, "node")}`); }
    }} />`}
    ${form === "edit" && html`<${Edit} place=${place} close=${() => setForm(null)}
      save=${async (content) => { await change(post(at`/v1/trees/${document.tree.id}/nodes/${place.shown.id}/edits`, { content })); note("Added a version; the original is kept"); }} />`}
  </div>`;
}

function Bar({ view, turn, place, ask, flag }) {
  const look = [["path", "Path"], ["siblings", "Siblings"], ["request", "Request"]];
  const { flags } = place;
  return html`<div class="toolbar" role="toolbar" aria-label="Node">
    ${look.map(([name, text]) => html`<button type="button" key=${name} aria-pressed=${view === name ? "true" : "false"} onClick=${turn(name)}>${text}</button>`)}
    ${!readOnly && html`<span class="grow"></span>
      <button type="button" class="primary" onClick=${ask("branch")}>Branch</button>
      <button type="button" onClick=${ask("continue")}>Continue…</button>
      <button type="button" onClick=${ask("edit")}>Edit</button>
      <button type="button" aria-pressed=${flags.bookmarked ? "true" : "false"} onClick=${flag("bookmarked")}>Bookmark</button>
      <button type="button" aria-pressed=${flags.excluded ? "true" : "false"} onClick=${flag("excluded")}>Exclude</button>
      <button type="button" aria-pressed=${flags.pruned ? "true" : "false"} onClick=${flag("pruned")}>Prune</button>`}
  </div>`;
}

/** The form to edit a node: each of its texts. Images and other parts stay as they are. */
function Edit({ place, close, save }) {
  const { content } = place.shown;
  const blocks = Array.isArray(content) ? content : [{ type: "text", text: contentText(content) }];
  const texts = blocks.map((block, i) => [block, i]).filter(([block]) => block.type === "text");
  const fields = texts.map(([block, i], n) => ({ name: String(i), label: texts.length > 1 ? `Text ${n + 1} of ${texts.length}` : "Content", lines: texts.length > 1 ? 5 : 10, value: block.text ?? "", required: true }));
  if (fields.length === 0) fields.push({ name: "more", label: "Text after it", lines: 6, required: true });
  const others = blocks.length - texts.length;
  return html`<${Form} title="Edit a node" action="Add a version" close=${close} fields=${fields} save=${(values) => {
    if (!Array.isArray(content)) return save(values[0]);
    const edited = blocks.map((block, i) => (block.type === "text" ? { ...block, text: values[i] } : block));
    return save(values.more ? [...edited, { type: "text", text: values.more }] : edited);
  }}>${others > 0 && html`<p class="muted">${many(others, "other part")} of the node ${others === 1 ? "stays" : "stay"} as ${others === 1 ? "it is" : "they are"}: ${blocks.filter((block) => block.type !== "text").map((block) => visible(block.type)).join(", ")}.</p>`}<//>`;
}

/** Returns the reason why a model stopped, from the provider's response. */
const stopOf = (response) => response?.body?.choices?.[0]?.finish_reason ?? response?.body?.stop_reason ?? response?.body?.candidates?.[0]?.finishReason;

/** The response that a model's node was made of: the model, its usage and why it stopped. */
function Response({ tree, node }) {
  const loaded = useLoad((signal) => get(at`/v1/trees/${tree}/nodes/${node.id}`, signal), [tree, node.id]);
  const response = loaded.value?.node.raw_response;
  if (!response) return null;
  const stop = stopOf(response), { usage } = response;
  return html`<dl class="facts small">
    ${response.model && html`<${Fact} name="Model">${visible(response.model)}<//>`}
    ${stop && html`<${Fact} name="Stopped">${isCut(stop) ? html`<${Badge} kind="warn" title="The answer has reached its limit of tokens">cut: ${visible(stop)}<//>` : visible(stop)}<//>`}
    ${usage && html`<${Fact} name="Input">${count(usage.input_tokens)}<//><${Fact} name="Output">${count(usage.output_tokens)}<//>`}
    ${response.request_hash && html`<${Fact} name="Request"><a href=${to("request", response.request_hash)}>See what the model saw</a><//>`}
  </dl>`;
}

function NodeDetail({ tree, place, wanted, show, restore }) {
  const [version, setVersion] = useState(null);
  useEffect(() => setVersion(null), [place]);
  const shown = version ?? place.shown;
  const text = version ? contentText(version.content) : place.text;
  const isPruned = (one) => Boolean(one.metadata?.pruned);
  return html`<article>
    <header class="sub"><h2>${visible(shown.local_id ?? shown.id)}</h2><span class="muted">${shown.author}${shown.author_agent_id ? ` · ${visible(shown.author_agent_id)}` : ""} · ${time(shown.created_at)}</span></header>
    <dl class="facts small"><${Fact} name="Depth">${count(place.depth)}<//><${Fact} name="Children">${count(place.children.length)}<//><${Fact} name="Below">${count(place.size - 1)}<//>
      ${Object.entries(place.flags).filter(([, value]) => value).map(([name]) => html`<${Fact} key=${name} name="Flag"><${Badge} kind="warn">${name}<//><//>`)}</dl>
    ${place.versions.length > 1 && html`<p class="versions">Versions: ${place.versions.map((one, i) => html`<button type="button" key=${one.id} aria-pressed=${one === shown ? "true" : "false"} onClick=${() => setVersion(one)}>${i + 1}${isPruned(one) ? " (pruned)" : ""}</button> `)}
      ${!readOnly && version && version !== place.shown && isPruned(version) && html`<button type="button" onClick=${() => restore(version)}>Restore this version</button>`}</p>`}
    ${shown.author === "model" && html`<${Response} key=${shown.id} tree=${tree} node=${shown} />`}
    <${Text} value=${text} mark=${wanted} />
    ${version && version !== place.shown && html`<h3>Difference to the current version</h3><${DiffText} before=${text} now=${place.text} />`}
    ${place.context.length > 0 && html`<h3>Context and instructions</h3>${place.context.map(({ role, node }, i) => html`<div class="block" key=${i}><${Badge}>${role}<//><${Text} value=${typeof node?.content === "string" ? node.content : JSON.stringify(node?.content)} /></div>`)}`}
    ${place.annotations.length > 0 && html`<h3>Annotations</h3>${place.annotations.map((node, i) => html`<${Text} key=${i} value=${typeof node.content === "string" ? node.content : JSON.stringify(node.content)} />`)}`}
    ${place.children.length > 0 && html`<h3>Continues with</h3><ul class="links">${place.children.slice(0, 50).map((child) => html`<li key=${child.id}><button type="button" class="link" onClick=${() => show(child)}>${line(child.text, 120) || "empty"}</button></li>`)}</ul>
      ${place.children.length > 50 && html`<p class="muted">${count(place.children.length - 50)} more are in the tree.</p>`}`}
  </article>`;
}

const MOST_READ = 100;

/** The path from the root to a node, to be read like a conversation. */
function Reading({ place, show }) {
  const [from, setFrom] = useState(MOST_READ);
  useEffect(() => setFrom(MOST_READ), [place]);
  const path = useMemo(() => pathTo(place), [place]);
  const start = Math.max(0, path.length - from);
  return html`<article class="reading"><header class="sub"><h2>Path</h2><span class="muted">${many(path.length, "node")}</span></header>
    ${start > 0 && html`<p><button type="button" onClick=${() => setFrom(from + MOST_READ)}>Show ${count(Math.min(MOST_READ, start))} earlier of ${count(start)}</button></p>`}
    ${path.slice(start).map((one) => html`<section key=${one.id} class=${"message role-" + (one.shown.author === "model" ? "assistant" : "user") + (one.flags.excluded ? " excluded" : "")}>
      <h3><button type="button" class="link" onClick=${() => show(one)}>${one.shown.author}</button>${one.flags.excluded && html` <${Badge} kind="warn">excluded<//>`}</h3><${Text} value=${one.text} /></section>`)}
  </article>`;
}

const MOST_SIBLINGS = 12;

function Siblings({ place, roots, show }) {
  const siblings = place.parent?.children ?? roots;
  const others = siblings.filter((one) => one !== place);
  const [most, setMost] = useState(MOST_SIBLINGS);
  useEffect(() => setMost(MOST_SIBLINGS), [place.parent]);
  // The node itself is always shown, in its position.
  const before = others.slice(0, most - 1);
  const columns = siblings.filter((one) => one === place || before.includes(one));
  const [other, setOther] = useState(null);
  const chosen = others.includes(other) ? other : others[0];
  if (!chosen) return html`<${Empty} title="No siblings">This node is the only continuation of its parent.<//>`;
  return html`<article><header class="sub"><h2>${many(siblings.length, "sibling")}</h2></header>
    <div class="columns">${columns.map((one) => html`<section key=${one.id} class=${one === place ? "chosen" : ""}>
      <h3><button type="button" class="link" onClick=${() => show(one)}>${visible(one.shown.local_id ?? one.id)}</button> <small>${many(one.size - 1, "node")} below</small>
      ${one !== place && html` <button type="button" class="quiet" aria-pressed=${one === chosen ? "true" : "false"} onClick=${() => setOther(one)}>compare</button>`}</h3><${Text} value=${one.text} /></section>`)}</div>
    ${columns.length < siblings.length && html`<p class="more"><span class="muted">${count(columns.length)} of ${count(siblings.length)} siblings are shown.</span>
      <button type="button" onClick=${() => setMost(most + MOST_SIBLINGS)}>Show more</button></p>`}
    <h3>Difference between this node and ${visible(chosen.shown.local_id ?? chosen.id)}</h3><${DiffText} before=${place.text} now=${chosen.text} />
  </article>`;
}

/** The request that a model would get to continue from a node. Nothing is stored. */
function NodeRequest({ document, place }) {
  const agents = document.agents ?? [];
  const [agent, setAgent] = useState(agents.find((one) => one.type === "model")?.id ?? "");
  const loaded = useLoad((signal) => {
    const body = { tree: document.tree.id, head: place.shown.id };
    if (agent) body.agent = agent;
    return post("/v1/assemble/preview", body, signal);
  }, [place.shown.id, agent]);
  const [layer, setLayer] = useState("");
  return html`<article><header class="sub"><h2>Request</h2><span class="grow muted">what a model would see to continue from here</span>
    ${agents.length > 0 && html`<label class="line">Agent <select value=${agent} onChange=${(event) => setAgent(event.target.value)}><option value="">none</option>${agents.map((one) => html`<option key=${one.id} value=${one.id}>${visible(one.id)}</option>`)}</select></label>`}</header>
    <${Loaded} of=${loaded}>${({ model, report, blocks }) => html`
      <p class="verdict"><b>${count(report.budget.used)} tokens</b> for ${visible(model)}, ${many(blocks.length, "block")}, ${count(report.excluded.length)} left out</p>
      <${WindowBar} layers=${byLayer(blocks)} max=${report.budget.max} reserved=${report.budget.reserved} used=${report.budget.used} selected=${layer} onSelect=${setLayer} />
      ${report.excluded.length > 0 && html`<details class="banner"><summary>${many(report.excluded.length, "candidate")} left out</summary><ul>${report.excluded.slice(0, 200).map((row, i) => html`<li key=${i}><code>${visible(row.id)}</code> ${visible(row.reason)}</li>`)}</ul></details>`}
      ${blocks.filter((block) => !layer || block.layer === layer).slice(-200).map((block, i) => html`<section key=${i} class=${"message role-" + block.role}><h3>${visible(block.role)} <small>${visible(block.layer)} · ${short(block.tokens)} tokens</small></h3><${Text} value=${block.text} /></section>`)}`}<//>
  </article>`;
}
