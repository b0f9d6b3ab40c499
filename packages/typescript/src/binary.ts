/** Finds the `contexture` command. */

import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";

import { BinaryNotFoundError } from "./errors.js";

const NAME = process.platform === "win32" ? "contexture.exe" : "contexture";

/**
 * Returns the path of the `contexture` command. It is searched in `CONTEXTURE_BIN`, in the package
 * for this platform, which npm installs with this one, and in `PATH`.
 */
export function findBinary(platform = `${process.platform}-${process.arch}`): string {
  const named = process.env.CONTEXTURE_BIN;
  if (named) {
    if (!isFile(named)) {
      throw new BinaryNotFoundError(
        `CONTEXTURE_BIN is ${named}, which is not a file: set it to the path of the \`contexture\` command, or unset it`,
      );
    }
    return named;
  }
  try {
    return require.resolve(`contexture-ai-${platform}/bin/${NAME}`);
  } catch {
    // There is no package for this platform, or optional packages were not installed.
  }
  for (const directory of (process.env.PATH ?? "").split(delimiter)) {
    const path = join(directory, NAME);
    if (directory && isFile(path)) return path;
  }
  throw new BinaryNotFoundError(
    `there is no \`contexture\` command for ${platform}: install contexture-ai with its optional dependencies, set CONTEXTURE_BIN to a command that you built, or name a server with \`new Client({ url })\` or CONTEXTURE_URL`,
  );
}

function isFile(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
