/**
 * Contexture: fit what a language model sees into its context window.
 *
 * {@link fit} makes a request of a provider's API fit. {@link Client} offers every operation of the
 * server. `contexture-ai/ai` has the middleware for the AI SDK.
 */

export type { components, operations, paths } from "./api.js";
export { findBinary } from "./binary.js";
export { Client, type CallOptions, type ClientOptions, type Input, type Output, type Schemas, defaultClient } from "./client.js";
export {
  type Advice,
  ApiError,
  BinaryNotFoundError,
  ContextureError,
  FrameworkVersionError,
  InvalidAnswerError,
  ServerStartError,
  ServerUnavailableError,
} from "./errors.js";
export { type FitOptions, fit } from "./fit.js";
export { LocalServer, type LocalServerOptions } from "./server.js";
export { VERSION } from "./version.js";
