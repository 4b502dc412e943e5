/** A link to Docker's file, as dockershim makes it, becomes a file: kubelets cannot rotate links. */
import { access, constants, open } from "node:fs/promises";
import { sleep } from "../../../lib/abort.js";
import { ShimError } from "../../../lib/errors.js";
import { fileError } from "../../../lib/files/file-errors.js";
import { rotationTime } from "../../../lib/time.js";
import type { Snapshot } from "../../../domain/snapshot.js";
import type { LogTarget } from "../../ports/container-logs.js";
import type { ReaderPosition } from "../file/json-file-reader.js";
import { identityOf, longestLineBytes, RotatedFiles } from "../file/rotated-files.js";
import { beginning, newRecord, type LogRecord } from "../log-record.js";
import { archiveLimitBytes, longestEntryBytes } from "../log-source.js";
import { engineLinks } from "./engine-links.js";

/** `keep`: adopted logs stay links. `convert`: from a rotation on this program writes them. */
export type AdoptedLogs = "keep" | "convert";

export function keptLink(containerId: string): ShimError {
  return new ShimError(
    "precondition",
    `the log of container "${containerId}" is a link to the Docker Engine's file, as dockershim and cri-dockerd make it: ` +
      "only the engine can rotate it (log-opts max-size), unless --adopted-logs=convert makes it a file of the CRI's format",
    { containerId },
  );
}

const rotationMs = 50;

/**
 * The log begins behind the present end of Docker's file; what is before is its history. `precondition`
 * without a link, or with a file that cannot be read.
 */
export async function convertedRecord(container: Snapshot, target: LogTarget): Promise<LogRecord> {
  const { id, logDriver, logPath, logOptions } = container;
  const refuse = (reason: string): never => {
    throw new ShimError("precondition", `convert the log of container "${id}": ${reason}`, {
      containerId: id,
    });
  };
  if (logDriver !== "json-file" || logPath === "") {
    return refuse(`log driver "${logDriver}" has no files of JSON lines`);
  }
  const canRead = (): Promise<void> => access(logPath, constants.R_OK);
  // Docker rotates by a rename, after which the file is missing for a moment.
  await canRead()
    .catch(() => sleep(rotationMs).then(canRead))
    .catch(() => refuse(`the engine's file "${logPath}" is out of reach`));
  const links = await engineLinks(target, id);
  const link = links.findLast((path) => path !== target.path) ?? links[0];
  if (link === undefined) {
    return refuse(`"${target.path}" is not a link to the engine's file, and has no rotated link beside it`);
  }
  const end = await endOfLog(logPath, new RotatedFiles(logPath, archiveLimitBytes(logOptions)));
  return {
    ...newRecord(id, target),
    source: "file",
    position: { ...beginning, ...end },
    history: { path: link === target.path ? `${link}.${rotationTime(new Date())}` : link, ...end },
  };
}

const newline = 0x0a;
const chunkBytes = 64 * 1024;
/** Docker rotates in order to write: the new file has its first entry a moment later. */
const attempts = 10;
const pauseMs = 20;

/** Behind the last whole entry of the newest file. Throws `unavailable` when that file stays empty. */
async function endOfLog(path: string, files: RotatedFiles): Promise<ReaderPosition> {
  try {
    for (let attempt = 1; attempt <= attempts; attempt += 1) {
      const end = await endOfFile(path);
      if (end !== undefined) return end;
      // The container has no output yet.
      if ((await files.count()) <= 1) return { file: "", offset: 0 };
      await sleep(pauseMs);
    }
  } catch (error) {
    throw fileError("look for the end of the engine's log", path, error);
  }
  throw new ShimError("unavailable", `the engine is about to rotate its log "${path}"`, { path });
}

/** Undefined without a whole entry. */
async function endOfFile(path: string): Promise<ReaderPosition | undefined> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const head = Buffer.alloc(Math.min(size, longestLineBytes));
    const { bytesRead } = await file.read(head, 0, head.length, 0);
    const identity = identityOf(head.subarray(0, bytesRead));
    if (identity === "") return undefined;
    const chunk = Buffer.alloc(chunkBytes);
    for (let end = size; end > 0 && size - end < longestEntryBytes;) {
      const start = Math.max(0, end - chunkBytes);
      const { bytesRead: read } = await file.read(chunk, 0, end - start, start);
      const last = chunk.subarray(0, read).lastIndexOf(newline);
      if (last >= 0) return { file: identity, offset: start + last + 1 };
      end = start;
    }
    return undefined;
  } finally {
    await file.close();
  }
}
