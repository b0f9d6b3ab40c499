export * from "../dist/ai.js";
