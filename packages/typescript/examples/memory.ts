import { Client } from "contexture-ai";

const client = new Client(); // starts a local server
await client.recordText({ source: "notes", text: "The dog is called Rufus." });
const found = await client.recall({ query: "What is the dog called?", max_tokens: 500 });
console.log(found.content);
