// Parts that the views share: lists, panes, text, states, dialogs and keys.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { bytes, count, lineDiff, short, visible } from "./format.js";

export { html, useEffect, useLayoutEffect, useMemo, useRef, useState };

// --- Addresses ---

/** Returns the address of a view: to("session", label), with an optional query. */
export function to(...parts) {
  const last = parts[parts.length - 1];
  const query = last !== null && typeof last === "object" ? parts.pop() : {};
  const pairs = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = pairs.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  return "#/" + parts.map(encodeURIComponent).join("/") + (text && "?" + text);
}

/** Changes the query of the address without a new entry in the history. */
export function setQuery(change) {
  const [path, text = ""] = location.hash.split("?");
  const query = new URLSearchParams(text);
  for (const [name, value] of Object.entries(change))
    if (value === "" || value === null || value === undefined) query.delete(name);
    else query.set(name, value);
  const rest = query.toString();
  history.replaceState(null, "", path + (rest && "?" + rest));
}

// --- Loading ---

/** Loads a value, again when `inputs` change. Returns `{value, error, loading, reload, set}`. */
export function useLoad(load, inputs) {
  const [state, set] = useState({ loading: true });
  const [again, setAgain] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    set((old) => ({ loading: true, value: again === old.again ? undefined : old.value, again }));
    load(abort.signal).then(
      (value) => !abort.signal.aborted && set({ value, again }),
      (error) => !abort.signal.aborted && set({ error, again }),
    );
    return () => abort.abort();
  }, [...inputs, again]);
  return {
    ...state,
    reload: () => setAgain((n) => n + 1),
    set: (value) => set((old) => ({ ...old, value: typeof value === "function" ? value(old.value) : value })),
  };
}

/** Shows a loaded value, or the state that it is in. */
export function Loaded({ of, lines = 6, children }) {
  if (of.error) return html`<${Failure} error=${of.error} retry=${of.reload} />`;
  if (of.value === undefined) return html`<${Loading} lines=${lines} />`;
  return children(of.value);
}

export function Loading({ lines = 6 }) {
  return html`<div class="loading" role="status" aria-label="Loading">
    ${Array.from({ length: lines }, (_, i) => html`<div class=${"bone bone-" + (i % 3)} key=${i}></div>`)}
  </div>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2><div>${children}</div></div>`;
}

export function Failure({ error, retry }) {
  return html`<div class="empty failure" role="alert">
    <h2>${error.status === 404 ? "Not found" : "This did not work"}</h2>
    <p>${visible(error.message)}</p>
    ${error.hint && html`<p class="muted">${visible(error.hint)}</p>`}
    ${retry && html`<p><button type="button" onClick=${retry}>Retry</button></p>`}
  </div>`;
}

// --- Keys ---

const layers = [];

/** Handles keys while the view is shown: `[key, text for the help, handler]`. */
export function useKeys(group, keys) {
  const entry = useRef({}).current;
  Object.assign(entry, { group, keys });
  useEffect(() => {
    layers.push(entry);
    return () => layers.splice(layers.indexOf(entry), 1);
  }, []);
}

export const keyGroups = () => layers;

// The keys of each list on the page, the latest last.
const lists = [];

/** Returns true if a key presses the link or button that has the focus. */
const isPress = (event) => ["Enter", " "].includes(event.key) && Boolean(event.target.closest("a, button, summary"));

const isTyping = (target) =>
  target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "Escape" && isTyping(event.target)) return event.target.blur();
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (isPress(event)) return;
  for (const layer of [...layers].reverse())
    for (const [names, , handler] of layer.keys)
      if (names.split(" ").includes(event.key)) {
        event.preventDefault();
        handler(event);
        return;
      }
  // The keys of the list also work before it has the focus, so that the first
  // Tab still goes to the start of the page. Where text has the focus, they
  // scroll it.
  const list = lists[lists.length - 1];
  if (list && event.target.matches("body, main, a, button")) list.current?.(event);
});

// --- Lists ---

const isOption = (id, i) => `${id}-${i}`;

/**
 * A list of rows of the same height, of which only the visible ones exist.
 * `row(i)` returns the content of a row.
 */
export function List({ id, label, size, height = 44, row, rowClass, selected, onSelect, onOpen, clickOpens, onRange, role = "listbox", attributes, top }) {
  const box = useRef();
  const [view, setView] = useState({ top: 0, room: 600 });
  useLayoutEffect(() => {
    const measure = () => box.current && setView({ top: box.current.scrollTop, room: box.current.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(view.top / height) - 8);
  const last = Math.min(size, Math.ceil((view.top + view.room) / height) + 8);
  useEffect(() => { onRange?.(first, last); }, [first, last, size]);
  const scrollTo = (i) => {
    const element = box.current;
    if (!element || i < 0) return;
    const start = i * height;
    if (start < element.scrollTop) element.scrollTop = start;
    else if (start + height > element.scrollTop + element.clientHeight) element.scrollTop = start + height - element.clientHeight;
  };
  useLayoutEffect(() => { if (selected >= 0) scrollTo(selected); }, [selected, size > 0]);
  useLayoutEffect(() => { if (top !== undefined && box.current) box.current.scrollTop = top * height; }, [top]);
  const move = (i) => onSelect?.(Math.max(0, Math.min(size - 1, i)));
  const page = Math.max(1, Math.floor(view.room / height) - 1);
  const onKeyDown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isPress(event)) return;
    const at = selected ?? -1;
    const steps = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, Home: 0, End: size - 1, PageDown: at + page, PageUp: at - page };
    if (event.key in steps) { event.preventDefault(); event.stopPropagation(); box.current.focus({ preventScroll: true }); if (size) move(steps[event.key]); }
    else if (event.key === "Enter" && onOpen && at >= 0) { event.preventDefault(); event.stopPropagation(); onOpen(at); }
  };
  const keys = useRef();
  keys.current = onKeyDown;
  useEffect(() => {
    lists.push(keys);
    return () => lists.splice(lists.indexOf(keys), 1);
  }, []);
  const item = role === "tree" ? "treeitem" : "option";
  // Rows that leave the view are used again for those that enter it.
  const pool = Math.ceil(view.room / height) + 18;
  const rows = [];
  for (let i = first; i < last; i++)
    rows.push(html`<div key=${i % pool} id=${isOption(id, i)} role=${item} aria-selected=${i === selected ? "true" : "false"}
      aria-setsize=${size} aria-posinset=${i + 1} ...${attributes?.(i)}
      class=${"row " + (rowClass?.(i) ?? "") + (i === selected ? " selected" : "")}
      style=${{ top: i * height + "px", height: height + "px" }}
      onClick=${(event) => { if (event.target.closest("a,button")) return; onSelect?.(i); if (clickOpens) onOpen(i); }}
      onDblClick=${() => onOpen?.(i)}>${row(i)}</div>`);
  return html`<div class="list" ref=${box} id=${id} role=${role} aria-label=${label} tabindex="0"
    aria-activedescendant=${selected >= first && selected < last ? isOption(id, selected) : undefined}
    onScroll=${() => setView((old) => ({ ...old, top: box.current.scrollTop }))}
    onKeyDown=${onKeyDown}>
    <div class="spacer" role="presentation" style=${{ height: size * height + "px" }}>${rows}</div>
  </div>`;
}

/** A list on the left and what is selected in it on the right. */
export function Split({ list, detail, open, close, title }) {
  return html`<div class=${"split" + (open ? " open" : "")}>
    <div class="side">${list}</div>
    <section class="detail" aria-label=${title ?? "Details"} tabindex="0">
      ${open && html`<button type="button" class="back narrow" onClick=${close}>‹ Back to the list</button>`}
      ${detail}
    </section>
  </div>`;
}

export function Search({ value, onInput, label, children }) {
  const input = useRef();
  useKeys("Search", [["/", "search in this view", () => input.current?.focus()]]);
  return html`<div class="search">
    <input ref=${input} type="search" value=${value} placeholder=${label} aria-label=${label}
      onInput=${(event) => onInput(event.target.value)} spellcheck="false" autocomplete="off" />
    ${children}
  </div>`;
}

// --- Text ---

const MOST_TEXT = 60_000;

/** Content from anywhere, as text. Long content is shown in part at first. */
export function Text({ value, mark }) {
  const [all, setAll] = useState(false);
  useEffect(() => setAll(false), [value]);
  const whole = String(value ?? "");
  const isLong = !all && whole.length > MOST_TEXT;
  const shown = visible(isLong ? whole.slice(0, MOST_TEXT) : whole);
  return html`<div class="text">
    <pre tabindex="0" dir="auto">${mark ? marked(shown, mark) : shown}</pre>
    ${isLong && html`<p class="more"><span class="muted">${bytes(MOST_TEXT)} of ${bytes(whole.length)}</span>
      <button type="button" onClick=${() => setAll(true)}>Show all</button></p>`}
  </div>`;
}

/** Returns a text with every occurrence of a word marked, up to a limit. */
function marked(text, word) {
  const lower = text.toLowerCase(), wanted = word.toLowerCase();
  const parts = [];
  let from = 0;
  for (let n = 0; n < 200; n++) {
    const at = lower.indexOf(wanted, from);
    if (at < 0) break;
    parts.push(text.slice(from, at), html`<mark>${text.slice(at, at + wanted.length)}</mark>`);
    from = at + wanted.length;
  }
  parts.push(text.slice(from));
  return parts;
}

const CONTEXT = 3;

// Longer texts are compared in part at first, so that the page answers.
const MOST_COMPARED = 400_000;

/** The lines that differ between two texts, with a few around them. */
export function DiffText({ before, now }) {
  const [whole, setWhole] = useState(false);
  useEffect(() => setWhole(false), [before, now]);
  const longest = Math.max(String(before ?? "").length, String(now ?? "").length);
  const isPart = !whole && longest > MOST_COMPARED;
  const lines = useMemo(() => {
    const part = (text) => visible(isPart ? String(text ?? "").slice(0, MOST_COMPARED) : text);
    const all = lineDiff(part(before), part(now));
    const near = new Uint8Array(all.length);
    all.forEach(([kind], i) => {
      if (kind !== " ") near.fill(1, Math.max(0, i - CONTEXT), Math.min(all.length, i + CONTEXT + 1));
    });
    const shown = [];
    let hidden = 0;
    all.forEach(([kind, text], i) => {
      if (near[i]) {
        if (hidden) shown.push(["…", `${count(hidden)} equal ${hidden === 1 ? "line" : "lines"}`]);
        hidden = 0;
        shown.push([kind, text]);
      } else hidden++;
    });
    if (hidden) shown.push(["…", `${count(hidden)} equal ${hidden === 1 ? "line" : "lines"}`]);
    return shown;
  }, [before, now, isPart]);
  const names = { "+": "added", "-": "removed", "…": "hidden", " ": "" };
  const most = 2000;
  return html`<div class="text"><pre tabindex="0" dir="auto" class="diff">${lines.slice(0, most).map(([kind, text], i) =>
    html`<span key=${i} class=${names[kind]}>${kind + " " + text.slice(0, 5000) + "\n"}</span>`)}</pre>
    ${lines.length > most && html`<p class="muted">${count(lines.length - most)} more lines are not shown.</p>`}
    ${isPart && html`<p class="more"><span class="muted">Only the first ${count(MOST_COMPARED)} of ${count(longest)} characters are compared.</span>
      <button type="button" onClick=${() => setWhole(true)}>Compare all</button></p>`}
  </div>`;
}

export const Badge = ({ kind = "", children, title }) => html`<span class=${"badge " + kind} title=${title}>${children}</span>`;

export function Fact({ name, children, title }) {
  return html`<div class="fact" title=${title}><dt>${name}</dt><dd>${children}</dd></div>`;
}

export function Tabs({ label, tabs, current }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(([name, text, href]) => html`<a key=${name} href=${href} aria-current=${name === current ? "page" : undefined}>${text}</a>`)}
  </nav>`;
}

// --- The window by layer ---

/** Returns the tokens of each layer, in the order the layers are sent. */
export function byLayer(blocks) {
  const layers = new Map();
  for (const block of blocks) {
    const layer = layers.get(block.layer) ?? { name: block.layer, tokens: 0, blocks: 0 };
    layer.tokens += block.tokens;
    layer.blocks++;
    layers.set(block.layer, layer);
  }
  return [...layers.values()];
}

/** The context window as a bar: each layer, what is reserved, what is free. */
export function WindowBar({ layers, max, reserved = 0, used, selected, onSelect, label, scale }) {
  const whole = Math.max(max ?? 0, used + reserved, 1);
  const free = whole - used - reserved;
  const part = (tokens) => ({ flexGrow: Math.max(tokens, whole / 400), flexBasis: 0 });
  return html`<div class="window">
    <div class="bar" style=${scale ? { width: Math.max(1, (100 * whole) / scale) + "%" } : undefined} role="img" aria-label=${`${label ?? "Window"}: ${count(used)} of ${count(whole)} tokens used` + (reserved ? `, ${count(reserved)} reserved` : "")}>
      ${layers.map((layer, i) => html`<span key=${layer.name} style=${part(layer.tokens)}
        class=${`tint-${i % 6}` + (selected === layer.name ? " chosen" : selected ? " faded" : "")}
        title=${`${layer.name}: ${count(layer.tokens)} tokens`}
        onClick=${() => onSelect?.(selected === layer.name ? "" : layer.name)}></span>`)}
      ${free > 0 && max ? html`<span class="free" style=${part(free)} title=${`free: ${count(free)} tokens`}></span>` : null}
      ${reserved > 0 && html`<span class="reserved" style=${part(reserved)} title=${`reserved for the response: ${count(reserved)} tokens`}></span>`}
    </div>
    <div class="legend">
      ${layers.map((layer, i) => html`<button type="button" key=${layer.name} class=${"chip" + (selected === layer.name ? " chosen" : "")}
        aria-pressed=${selected === layer.name ? "true" : "false"} onClick=${() => onSelect?.(selected === layer.name ? "" : layer.name)}>
        <i class=${`tint-${i % 6}`}></i><span>${visible(layer.name)}</span> <b>${short(layer.tokens)}</b></button>`)}
      ${free > 0 && max ? html`<span class="chip plain"><i class="free"></i>free <b>${short(free)}</b></span>` : null}
      ${reserved > 0 && html`<span class="chip plain"><i class="reserved"></i>reserved <b>${short(reserved)}</b></span>`}
    </div>
  </div>`;
}

// --- Dialogs and notes ---

/** A dialog that takes the keyboard until it is closed. */
export function Dialog({ title, close, children, wide }) {
  const dialog = useRef();
  // A selection that is dragged out of the dialog also ends in a click outside.
  const pressed = useRef(false);
  useEffect(() => { dialog.current.showModal(); }, []);
  return html`<dialog ref=${dialog} class=${wide ? "wide" : ""} aria-label=${title} onClose=${close}
    onMouseDown=${(event) => { pressed.current = event.target === dialog.current; }}
    onClick=${(event) => event.target === dialog.current && pressed.current && dialog.current.close()}>
    <div class="dialog"><header><h2>${title}</h2>
      <button type="button" class="quiet" aria-label="Close" onClick=${() => dialog.current.close()}>✕</button></header>
      ${children}</div>
  </dialog>`;
}

/** A form in a dialog: text fields and a button. `save(values)` may fail. */
export function Form({ title, fields, action, close, save, danger, children }) {
  const [values, setValues] = useState(() => Object.fromEntries(fields.map((field) => [field.name, field.value ?? ""])));
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try { await save(values); close(); } catch (problem) { setError(problem); setBusy(false); }
  };
  return html`<${Dialog} title=${title} close=${close}>
    <form onSubmit=${submit}>
      ${children}
      ${fields.map((field) => {
        const set = (event) => setValues({ ...values, [field.name]: event.target.value });
        const shared = { name: field.name, value: values[field.name], onInput: set, required: field.required, autocomplete: "off", dir: "auto" };
        return html`<label key=${field.name}><span>${field.label}</span>
          ${field.lines ? html`<textarea rows=${field.lines} ...${shared}></textarea>`
            : field.options ? html`<select ...${shared}>${field.options.map((option) => html`<option key=${option} value=${option}>${option}</option>`)}</select>`
            : html`<input type=${field.type ?? "text"} ...${shared} />`}
        </label>${field.file && html`<label><span>From a file</span><input type="file" accept=${field.file} onChange=${async (event) => {
          const [file] = event.target.files;
          const text = await file?.text();
          if (text !== undefined) setValues((old) => ({ ...old, [field.name]: text }));
        }} /></label>`}`;
      })}
      ${error && html`<p class="wrong" role="alert">${visible(error.message)}${error.hint && html`<br />${visible(error.hint)}`}</p>`}
      <footer><button type="button" onClick=${(event) => event.target.closest("dialog").close()}>Cancel</button>
        <button type="submit" class=${danger ? "danger" : "primary"} disabled=${busy}>${action}</button></footer>
    </form>
  <//>`;
}

const notes = new Set();
let shown = [];

/** Shows a short message for a few seconds. */
export function note(text) {
  const entry = { text };
  shown = [...shown, entry];
  notes.forEach((set) => set(shown));
  setTimeout(() => { shown = shown.filter((one) => one !== entry); notes.forEach((set) => set(shown)); }, 4000);
}

export function Notes() {
  const [list, setList] = useState(shown);
  useEffect(() => { notes.add(setList); return () => notes.delete(setList); }, []);
  return html`<div class="notes" role="status" aria-live="polite">${list.map((entry, i) => html`<div key=${i}>${visible(entry.text)}</div>`)}</div>`;
}

/** Copies a text, and says so. */
export function Copy({ text, label = "Copy" }) {
  const copy = () => navigator.clipboard.writeText(text).then(() => note("Copied"), () => note("The browser did not allow copying"));
  return html`<button type="button" class="quiet" onClick=${copy}>${label}</button>`;
}

/** Saves a text as a file. */
export function download(name, media, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: media }));
  link.download = name.replace(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
