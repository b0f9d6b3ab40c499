// The implementation is CommonJS, so that `import` and `require` share it.
import contexture from "../dist/index.js";

export const {
  ApiError,
  BinaryNotFoundError,
  Client,
  ContextureError,
  FrameworkVersionError,
  InvalidAnswerError,
  LocalServer,
  ServerStartError,
  ServerUnavailableError,
  VERSION,
  defaultClient,
  findBinary,
  fit,
} = contexture;
