// The implementation is CommonJS, so that `import` and `require` share it.
import adapter from "../dist/ai.js";

export const { contextureMiddleware, fitModelMessages, prepareStep } = adapter;
