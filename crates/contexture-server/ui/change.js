// Changes of a record: supersede or forget it, with a reason.

import { at, get, post, remove } from "./api.js";
import { contentText, visible } from "./format.js";
import { Form, html, note, useLoad } from "./parts.js";

/** Returns a record as a line of text. */
export function textOf(record) {
  switch (record.kind) {
    case "event": return record.content?.text ?? contentText(record.content);
    case "chunk": return record.text;
    case "entity": return `${record.name} (${record.type})`;
    case "relation": return `${record.source_id} ${record.type} ${record.target_id}`;
    case "pattern": return record.name;
    default: return record.goal ?? record.id;
  }
}

const REASON = { name: "reason", label: "Reason (optional)" };

/** Saves why a record was changed, as an event. */
const saveReason = (text, reason, now) => post("/v1/memory/records", { records: [
  { kind: "event", id: `change-${now.replace(/\D/g, "")}`, type: "memory_change", source: "inspector", timestamp: now, content: `${text}: ${reason.trim()}` },
] });

/** Returns the text of a record that a person would edit, and how to set it. */
function editable(record) {
  switch (record.kind) {
    case "chunk": return [record.text, (text) => ({ text })];
    case "event": {
      const { content } = record;
      if (typeof content === "object" && content !== null && typeof content.text === "string")
        return [content.text, (text) => ({ content: { ...content, text } })];
      return [typeof content === "string" ? content : contentText(content), (text) => ({ content: text })];
    }
    default: return null;
  }
}

/** The form to supersede or forget the record of a row: `{source: id, kind}`. */
export function Change({ what, row, close, again }) {
  const loaded = useLoad(async (signal) => (await get(at`/v1/memory/records/${row.source}`, signal)).records, [row.source]);
  if (!loaded.value) return loaded.error ? (note(loaded.error.message), close(), null) : null;
  const record = loaded.value.find((one) => one.kind === row.kind) ?? loaded.value[0];
  if (what === "forget")
    return html`<${Form} title="Forget a record" action="Forget" danger close=${close} fields=${[REASON]} save=${async ({ reason }) => {
      await remove(at`/v1/memory/records/${record.id}?kind=${record.kind}`);
      if (reason.trim()) await saveReason(`The ${record.kind} ${record.id} was deleted`, reason, new Date().toISOString());
      note(`Forgot ${record.id}`);
      again();
    }}><p>The ${record.kind} <code>${visible(record.id)}</code> and everything derived only from it is deleted. This cannot be undone. A reason is saved in memory as an event with the id of the record.</p><//>`;
  const edit = editable(record);
  if (!edit)
    return html`<${Form} title="Supersede a record" action="Close" close=${close} fields=${[]} save=${async () => {}}><p>Only events and chunks can be superseded here. Record a new ${record.kind} with <code>supersedes</code> by the API.</p><//>`;
  const [text, set] = edit;
  return html`<${Form} title="Supersede a record" action="Supersede" close=${close} fields=${[{ name: "text", label: "What holds from now on", lines: 6, value: text, required: true }, REASON]} save=${async (values) => {
    const { valid_from, valid_to, embedding, ...rest } = record;
    const now = new Date().toISOString();
    const id = `${record.id.slice(0, 40)}-${now.replace(/\D/g, "")}`;
    await post("/v1/memory/records", { records: [{ ...rest, ...set(values.text), id, timestamp: now, supersedes: record.id }] });
    if (values.reason.trim()) await saveReason(`The ${record.kind} ${record.id} was superseded by ${id}`, values.reason, now);
    note(`Superseded ${record.id}`);
    again();
  }}><p>A new ${record.kind} replaces <code>${visible(record.id)}</code>, which stays stored with an end of its validity. A reason is saved in memory as an event.</p><//>`;
}
