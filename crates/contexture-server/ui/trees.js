// The list of trees, and the shape of one tree.

import { get, post, readOnly } from "./api.js";
import { contentText, count, line, many, time, visible } from "./format.js";
import { loaded, usePages } from "./sessions.js";
import { Badge, Empty, Form, List, Loaded, Search, html, note, setQuery, to, useKeys, useMemo, useState } from "./parts.js";

export function Trees({ query }) {
  const pages = usePages("/v1/trees", "trees", "after");
  const [wanted, setWanted] = useState(query.q ?? "");
  const [selected, setSelected] = useState(0);
  const [form, setForm] = useState(false);
  const shown = useMemo(() => {
    const words = wanted.toLowerCase();
    return (pages.value ?? []).filter(({ tree }) => [tree.id, tree.title].some((text) => text?.toLowerCase().includes(words)));
  }, [pages.value, wanted]);
  const open = (i) => { location.hash = to("tree", shown[i].tree.id); };
  useKeys("Trees", [["Enter", "open the selected tree", () => shown.length && open(selected)], ...(readOnly ? [] : [["i", "import a tree", () => setForm(true)]])]);
  return html`<div class="page">
    <div class="head"><h1>Trees</h1><${Search} value=${wanted} onInput=${(text) => { setWanted(text); setSelected(0); setQuery({ q: text }); }} label="Search trees" />
      <span class="muted grow">${loaded(pages, shown.length, "tree")}</span>
      ${!readOnly && html`<button type="button" onClick=${() => setForm(true)}>Import…</button>`}</div>
    <${Loaded} of=${pages}>${() => (shown.length === 0
      ? html`<${Empty} title=${wanted ? "No tree matches" : "No trees yet"}>${!wanted && html`<p>A tree appears here when it is imported:</p><pre>contexture tree import story.json</pre>`}<//>`
      : html`<${List} id="trees" label="Trees" size=${shown.length} height=${52} selected=${selected} onSelect=${setSelected} onOpen=${open} clickOpens row=${(i) => {
          const { tree, nodes, paths } = shown[i];
          return html`<div class="cells"><span class="grow"><b>${line(tree.title || tree.id)}</b><small>${visible(tree.id)} · ${tree.mode}</small></span>
            ${paths.length > 0 && html`<${Badge}>${many(paths.length, "saved path")}<//>`}
            <span class="number">${count(nodes)}<small>${nodes === 1 ? "node" : "nodes"}</small></span><span class="when wide-only">${time(tree.created_at)}</span></div>`;
        }} />`)}<//>
    ${form && html`<${Form} title="Import a tree" action="Import" close=${() => setForm(false)} fields=${[{ name: "document", label: "The document, as JSON", lines: 10, required: true, file: ".json,application/json" }]}
      save=${async ({ document }) => {
        let parsed;
        try { parsed = JSON.parse(document); } catch (error) { throw new Error(`this is not JSON: ${error.message}`); }
        await post("/v1/trees", parsed);
        note("Imported");
        pages.reload();
      }} />`}
  </div>`;
}

// A large tree is made in steps of this many nodes, so that the page answers in between.
const STEP = 500;
// How long the page may be kept waiting, in milliseconds.
const PATIENCE = 10;

const pause = () => new Promise((done) => setTimeout(done));

/** Returns the shape of a tree document, and lets the page answer while it is made. */
export async function shape(document) {
  // Reading the document was work, too.
  await pause();
  const steps = shaping(document);
  let began = performance.now();
  for (let step = steps.next(); ; step = steps.next()) {
    if (step.done) { await pause(); return step.value; }
    if (performance.now() - began > PATIENCE) { await pause(); began = performance.now(); }
  }
}

/**
 * Makes the shape of a tree document: places, each with its versions, its
 * parent, its children and its annotations. An edit without edges of its own
 * takes the place of its original.
 */
function* shaping(document) {
  const nodes = new Map();
  let done = 0;
  for (const node of document.nodes) {
    nodes.set(node.id, node);
    if (++done % STEP === 0) yield;
  }
  const incoming = new Map();
  for (const edge of document.edges)
    if (edge.type === "continuation") incoming.set(edge.target_node_id, edge);
  const places = new Map(), placeOf = new Map();
  for (const node of document.nodes) {
    // Follow the edits to the node that has the place.
    let first = node;
    const seen = new Set();
    while (first.edited_from && !incoming.has(first.id) && nodes.has(first.edited_from) && !seen.has(first.id)) {
      seen.add(first.id);
      first = nodes.get(first.edited_from);
    }
    placeOf.set(node.id, first.id);
    const place = places.get(first.id) ?? { id: first.id, versions: [], children: [], parent: null, annotations: [], context: [] };
    place.versions.push(node);
    places.set(first.id, place);
    if (++done % STEP === 0) yield;
  }
  const targets = new Set();
  // Annotations and context sources, each with the place where it is shown.
  const material = new Map();
  for (const edge of document.edges) {
    if (++done % STEP === 0) yield;
    const target = places.get(placeOf.get(edge.target_node_id));
    if (!target) continue;
    for (const source of edge.sources) {
      const place = places.get(placeOf.get(source.node_id));
      if (!place || place === target) continue;
      if (source.role !== "primary") { target.context.push({ role: source.role, node: nodes.get(source.node_id) }); material.set(place.id, target); }
      else if (edge.type === "annotation") { place.annotations.push(nodes.get(edge.target_node_id)); material.set(target.id, place); }
      else if (!target.parent) { target.parent = place; place.children.push(target); targets.add(target.id); }
    }
  }
  const order = (a, b) => ((a.versions[0].created_at ?? "") < (b.versions[0].created_at ?? "") ? -1 : 1);
  const roots = [...places.values()].filter((place) => !place.parent && !(material.has(place.id) && place.children.length === 0));
  for (const place of places.values()) place.children.length > 1 && place.children.sort(order);
  yield;
  // Depths without recursion: a tree can be one long line.
  const stack = roots.map((root) => [root, 0, 0]);
  const all = [];
  while (stack.length) {
    const [place, depth, level] = stack.pop();
    Object.assign(place, { depth, level });
    // A version that was pruned is not the one that requests have.
    place.shown = place.versions.findLast((version) => !version.metadata?.pruned) ?? place.versions[place.versions.length - 1];
    place.text = contentText(place.shown.content);
    place.flags = place.shown.metadata ?? {};
    all.push(place);
    // A line of single children is not indented: only a branch is.
    const inner = place.children.length > 1 ? level + 1 : level;
    for (let i = place.children.length - 1; i >= 0; i--) stack.push([place.children[i], depth + 1, inner]);
    if (++done % STEP === 0) yield;
  }
  // The size of each part, from the leaves up.
  for (let i = all.length - 1; i >= 0; i--) all[i].size = 1 + all[i].children.reduce((sum, child) => sum + child.size, 0);
  return { places, placeOf, roots, all, material };
}

/** Returns the place in the tree where a node is shown: for an annotation, that of the annotated node. */
export function placeOfNode(tree, id) {
  const seen = new Set();
  let place = tree.places.get(tree.placeOf.get(id));
  while (place && place.shown === undefined && !seen.has(place)) {
    seen.add(place);
    place = tree.material.get(place.id);
  }
  return place?.shown && place;
}

/** Returns the places from the root to `place`. */
export function pathTo(place) {
  const path = [];
  for (let one = place; one; one = one.parent) path.push(one);
  return path.reverse();
}

/** Returns the place where the longest way down from `place` ends. */
export function leafOf(place) {
  let one = place;
  while (one.children.length) one = one.children.reduce((best, child) => (child.size > best.size ? child : best));
  return one;
}
