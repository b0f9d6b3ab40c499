// Values as text: numbers, times, sizes, and content that cannot harm the page.

const numbers = new Intl.NumberFormat("en-US");

export const count = (n) => (n === null || n === undefined ? "–" : numbers.format(n));

export const many = (n, one, more = one + "s") => `${count(n)} ${n === 1 ? one : more}`;

/** Returns tokens in a short form, such as `12.3k`. */
export function short(n) {
  if (n === null || n === undefined) return "–";
  if (n < 1000) return String(n);
  if (n < 100_000) return (n / 1000).toFixed(1).replace(/\.0$/, "") + "k";
  if (n < 1_000_000) return Math.round(n / 1000) + "k";
  return (n / 1_000_000).toFixed(2).replace(/\.?0+$/, "") + "M";
}

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} kB`;
  return `${(n / 1024 / 1024).toFixed(1)} MB`;
}

export function dollars(n) {
  if (n === null || n === undefined) return "–";
  if (n === 0) return "$0";
  return n < 0.01 ? "$" + n.toFixed(4) : "$" + n.toFixed(2);
}

export const percent = (part, whole) =>
  whole > 0 ? `${((100 * part) / whole).toFixed(part < whole && part / whole > 0.995 ? 1 : 0)} %` : "–";

const dateTime = new Intl.DateTimeFormat("en-GB", {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
});

/** Returns a time for people, in their own time zone. */
export function time(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? String(text ?? "–") : dateTime.format(at);
}

/** Returns how long ago a time was. */
export function ago(text) {
  const at = new Date(text).getTime();
  if (Number.isNaN(at)) return "–";
  const seconds = Math.round((Date.now() - at) / 1000);
  if (seconds < 0) return time(text);
  const units = [[60, "s"], [60, "min"], [24, "h"], [30, "d"], [12, "mo"], [Infinity, "y"]];
  let value = seconds;
  for (const [size, unit] of units) {
    if (value < size) return `${Math.floor(value)} ${unit} ago`;
    value /= size;
  }
}

// Control characters would move text around; marks of direction would reorder it;
// characters without a width, such as tags, would hide text from the reader.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/gu;

function symbol(c) {
  const code = c.codePointAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** Returns text with control characters written out. */
export const visible = (text) => String(text ?? "").replace(/\r\n/g, "\n").replace(CONTROL, symbol);

/** Returns the beginning of a text in one line, for lists. */
export function line(text, most = 200) {
  const start = String(text ?? "").slice(0, most * 4).trim();
  const one = visible(start.replace(/\s+/g, " "));
  return one.length > most ? one.slice(0, most) + "…" : one;
}

/** Returns what a list calls a block: its path, else how its text begins, else its id. */
export function titleOf(block, text = block.text) {
  if (block.path) return line(block.path, 120);
  // The id of a turn says nothing to a reader.
  const isHash = /^[0-9a-f]{8,}(\/|$)/.test(block.id);
  return (isHash && line(text, 120)) || line(block.id, 120);
}

/** Returns true if a model stopped because its answer had reached the limit of tokens. */
export const isCut = (stop) => ["length", "max_tokens", "MAX_TOKENS", "max_output_tokens"].includes(stop);

/** Returns the first digits of a hash or id. */
export const brief = (hash) => String(hash ?? "").slice(0, 8);

/** Returns the text of a message's content: a text, or a list of blocks. */
export function contentText(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content === null || content === undefined ? "" : JSON.stringify(content, null, 2);
  return content.map(blockText).join("\n");
}

export function blockText(block) {
  switch (block.type) {
    case "text": return block.text ?? "";
    case "thinking": return block.text ?? block.thinking ?? "";
    case "tool_call": return `${block.name}(${JSON.stringify(block.arguments ?? {}, null, 2)})`;
    case "tool_result": return contentText(block.content);
    case "image": case "audio": case "document": return `[${block.type} ${block.media_type ?? ""}]`;
    default: return JSON.stringify(block.raw ?? block, null, 2);
  }
}

/** Returns the differences of two texts by line: `[" " | "-" | "+", line]`. */
export function lineDiff(before, now) {
  const a = before.split("\n"), b = now.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const x = a.slice(start, a.length - end), y = b.slice(start, b.length - end);
  const middle = [];
  // The table of the middle part is quadratic; beyond this it is not worth the wait.
  if (x.length * y.length > 1_000_000) {
    middle.push(...x.map((text) => ["-", text]), ...y.map((text) => ["+", text]));
  } else {
    const width = y.length + 1;
    const table = new Uint32Array((x.length + 1) * width);
    for (let i = x.length - 1; i >= 0; i--)
      for (let j = y.length - 1; j >= 0; j--)
        table[i * width + j] = x[i] === y[j]
          ? table[(i + 1) * width + j + 1] + 1
          : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    let i = 0, j = 0;
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) { middle.push([" ", x[i]]); i++; j++; }
      else if (i < x.length && (j >= y.length || table[(i + 1) * width + j] >= table[i * width + j + 1])) middle.push(["-", x[i++]]);
      else middle.push(["+", y[j++]]);
    }
  }
  const same = (text) => [" ", text];
  return [...a.slice(0, start).map(same), ...middle, ...a.slice(a.length - end).map(same)];
}
