// The page: its address, its frame, the key, the help. Each view is a module.

import { render } from "./vendor/preact.js";
import { key, onKeyNeeded, readOnly, version } from "./api.js";
import { visible } from "./format.js";
import { Dialog, Empty, Failure, Loading, Notes, html, keyGroups, to, useEffect, useKeys, useRef, useState } from "./parts.js";
import { Requests, Sessions } from "./sessions.js";

// The lists come with the page; the other views are loaded when they are opened.
const lazy = (load, name) => ({ load: () => load().then((module) => module[name]) });

const VIEWS = {
  sessions: Sessions,
  requests: Requests,
  session: lazy(() => import("./session.js"), "Session"),
  request: lazy(() => import("./request.js"), "Request"),
  diff: lazy(() => import("./diff.js"), "Diff"),
  memory: lazy(() => import("./memory.js"), "Memory"),
  trees: lazy(() => import("./trees.js"), "Trees"),
  tree: lazy(() => import("./tree.js"), "Tree"),
};

const ready = {};

/** Shows a view, and loads its module before. */
function View({ name, ...rest }) {
  const entry = VIEWS[name];
  const [found, setFound] = useState(() => (typeof entry === "function" ? entry : ready[name]));
  const [error, setError] = useState(null);
  useEffect(() => {
    if (!found) entry.load().then((view) => { ready[name] = view; setFound(() => view); }, () => setError({ message: "a file of the page could not be loaded", hint: "reload the page" }));
  }, []);
  if (error) return html`<${Failure} error=${error} retry=${() => location.reload()} />`;
  return found ? html`<${found} ...${rest} />` : html`<${Loading} lines=${8} />`;
}

const NAVIGATION = [
  ["sessions", "Sessions", ["session"]],
  ["requests", "Requests", ["request", "diff"]],
  ["memory", "Memory", []],
  ["trees", "Trees", ["tree"]],
];

/** Returns the view, its parts and its query from the address. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const decode = (part) => { try { return decodeURIComponent(part); } catch { return part; } };
  const [view, ...parts] = path.split("/").filter(Boolean).map(decode);
  return { view: view ?? "sessions", parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

const THEMES = ["auto", "light", "dark"];

function useTheme() {
  const [theme, setTheme] = useState(() => localStorage.getItem("contexture-theme") ?? "auto");
  useEffect(() => {
    localStorage.setItem("contexture-theme", theme);
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  return [theme, () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length])];
}

function App() {
  const [at, setAt] = useState(route);
  const [asked, setAsked] = useState(null);
  const [help, setHelp] = useState(false);
  const [opened, setOpened] = useState(0);
  const shown = useRef(at);
  const [theme, nextTheme] = useTheme();
  useEffect(() => {
    const changed = () => {
      const next = route(), before = shown.current;
      // An address with another query opens the view again. Memory follows its query itself.
      if (next.view === before.view && next.view !== "memory" && next.parts.join("/") === before.parts.join("/")) setOpened((n) => n + 1);
      shown.current = next;
      setAt(next);
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => onKeyNeeded((problem) => setAsked(problem)), []);
  useEffect(() => { document.title = [...at.parts, NAVIGATION.find(([name, , within]) => name === at.view || within.includes(at.view))?.[1], "Contexture"].filter(Boolean).join(" · "); }, [at]);
  const go = (name) => () => { location.hash = to(name); };
  useKeys("Everywhere", [
    ["?", "show this help", () => setHelp(true)],
    ["1", "sessions", go("sessions")],
    ["2", "requests", go("requests")],
    ["3", "memory", go("memory")],
    ["4", "trees", go("trees")],
    ["t", "switch between light and dark", nextTheme],
    ["Backspace", "go back", () => history.back()],
  ]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the content</a>
    <header class="top">
      <a class="brand" href=${to("sessions")} aria-label="Contexture: sessions"><svg viewBox="0 0 16 16" aria-hidden="true"><rect x="1" y="2.5" width="14" height="3" rx="1" /><rect x="1" y="6.5" width="9" height="3" rx="1" /><rect x="1" y="10.5" width="12" height="3" rx="1" /></svg><span>Contexture</span></a>
      <nav aria-label="Views">${NAVIGATION.map(([name, text, within]) => html`<a key=${name} href=${to(name)}
        aria-current=${name === at.view || within.includes(at.view) ? "page" : undefined}>${text}</a>`)}</nav>
      <div class="tools">
        ${readOnly && html`<span class="badge" title="Started by contexture inspect: nothing can be changed">read-only</span>`}
        <button type="button" class="quiet" onClick=${nextTheme} aria-label=${`Theme: ${theme}. Switch`} title=${`Theme: ${theme}`}>${{ auto: "◐", light: "○", dark: "●" }[theme]}</button>
        <button type="button" class="quiet" onClick=${() => setHelp(true)} aria-label="Keyboard help" title="Keyboard help">?</button>
      </div>
    </header>
    <main id="main" tabindex="-1">
      ${VIEWS[at.view] ? html`<${View} name=${at.view} key=${at.view + "/" + at.parts[0] + "/" + opened} parts=${at.parts} query=${at.query} />`
        : html`<${Empty} title="No such view"><p>There is no view at this address. <a href=${to("sessions")}>Go to the sessions</a>.</p><//>`}
    </main>
    <${Notes} />
    ${help && html`<${Help} close=${() => setHelp(false)} />`}
    ${asked && html`<${KeyDialog} problem=${asked} close=${() => setAsked(null)} done=${() => { setAsked(null); setOpened((n) => n + 1); }} />`}`;
}

function Help({ close }) {
  const lists = html`<tr><td><kbd>↑</kbd> <kbd>↓</kbd> <kbd>j</kbd> <kbd>k</kbd></td><td>move in a list</td></tr>
    <tr><td><kbd>Enter</kbd></td><td>open the selected row</td></tr>
    <tr><td><kbd>Esc</kbd></td><td>leave a field, close a dialog</td></tr>`;
  return html`<${Dialog} title="Keyboard" close=${close}>
    <div class="help">
      <section><h3>Lists</h3><table>${lists}</table></section>
      ${keyGroups().map((group) => html`<section key=${group.group}><h3>${group.group}</h3><table>
        ${group.keys.map(([names, text]) => html`<tr key=${names}><td>${names.split(" ").map((name) => html`<kbd>${name}</kbd> `)}</td><td>${text}</td></tr>`)}
      </table></section>`)}
    </div>
    <p class="muted">Contexture ${version} · <a href="/docs">API documentation</a></p>
  <//>`;
}

function KeyDialog({ problem, close, done }) {
  const [value, setValue] = useState("");
  const save = (event) => { event.preventDefault(); key.set(value.trim()); done(); };
  return html`<${Dialog} title="API key" close=${close}>
    <form onSubmit=${save}>
      <p>${visible(problem.message)}. ${visible(problem.hint)}</p>
      <label><span>Key</span><input type="password" value=${value} autofocus required autocomplete="off" placeholder="ctx_…" onInput=${(event) => setValue(event.target.value)} /></label>
      <p class="muted">The key is kept in this tab until you close it.</p>
      <footer><button type="submit" class="primary">Use this key</button></footer>
    </form>
  <//>`;
}

const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
