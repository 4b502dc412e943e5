/** `dockershim version --verify`: whether the executable has the bytes that `npm run package` gave it. */
import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import type { ProcessIo } from "../cli/process-io.js";
import { messageOf, ShimError } from "../lib/errors.js";
import { ownFiles } from "../lib/own-files.js";

/** The last line of an executable: scripts/package/executable.mjs. */
const trailer = /\ndockershim-sha256:([0-9a-f]{64})\n$/;
const trailerBytes = "\ndockershim-sha256:".length + 64 + 1;
const chunkBytes = 1024 * 1024;

export async function runVerify(
  _: object,
  { version, writeOut }: Pick<ProcessIo, "version" | "writeOut">,
): Promise<number> {
  const { self, directory } = ownFiles();
  if (directory !== undefined) {
    const reason = `"${directory}" is an installation of several files; only an executable can verify itself`;
    throw new ShimError("unsupported", `command "version": --verify: ${reason}`);
  }
  const digest = await verifyExecutable(self[0]);
  writeOut(`dockershim ${version}: verified, sha256:${digest}\n`);
  return 0;
}

/** The SHA-256 of the file, without its last line, in hexadecimal digits. `precondition` when it is not the one of that line. */
export async function verifyExecutable(path: string): Promise<string> {
  const file = await open(path).catch((error: unknown) => {
    throw new ShimError("precondition", `verify "${path}": ${messageOf(error)}`);
  });
  try {
    const { size } = await file.stat();
    const contentBytes = Math.max(0, size - trailerBytes);
    const end = Buffer.alloc(trailerBytes);
    await file.read(end, 0, trailerBytes, contentBytes);
    const named = trailer.exec(end.toString("latin1"))?.[1];
    if (named === undefined) {
      throw new ShimError("precondition", `verify "${path}": its end is missing, install it again`);
    }
    const hash = createHash("sha256");
    const buffer = Buffer.alloc(chunkBytes);
    for (let at = 0; at < contentBytes;) {
      const { bytesRead } = await file.read(buffer, 0, Math.min(chunkBytes, contentBytes - at), at);
      if (bytesRead === 0) break;
      hash.update(buffer.subarray(0, bytesRead));
      at += bytesRead;
    }
    if (hash.digest("hex") !== named) {
      throw new ShimError("precondition", `verify "${path}": its bytes have changed, install it again`);
    }
    return named;
  } finally {
    await file.close();
  }
}
