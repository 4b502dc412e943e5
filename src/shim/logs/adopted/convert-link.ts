/**
 * Logs of containers that dockershim or cri-dockerd made: links to Docker's file, which kubelets cannot
 * rotate, and which become files in the CRI's format when that is asked for.
 */
import { access, constants } from "node:fs/promises";
import { ShimError } from "../../lib/errors.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { LogTarget } from "../../ports/container-logs.js";
import { endOfLog } from "./docker-log-end.js";
import { engineLinks } from "./engine-links.js";
import { beginning, newRecord, type LogRecord } from "../log-record.js";
import { archiveLimitBytes } from "../log-source.js";
import { RotatedFiles } from "../file/rotated-files.js";

/** `keep`: they stay links. `convert`: from the first rotation on, this program writes them. */
export type AdoptedLogs = "keep" | "convert";

export function keptLink(containerId: string): ShimError {
  return new ShimError(
    "precondition",
    `the log of container "${containerId}" is a link to the Docker Engine's file, as dockershim and cri-dockerd make it: ` +
      "only the engine can rotate it (log-opts max-size), unless --adopted-logs=convert makes it a file of the CRI's format",
    { containerId },
  );
}

/**
 * The record of a log that goes on behind the present end of Docker's file; what comes before it is its
 * history. `precondition` when there is no link, or its file is out of reach.
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
  await access(logPath, constants.R_OK).catch(() => refuse(`the engine's file "${logPath}" is out of reach`));
  const links = await engineLinks(target, id);
  const link = links.findLast((path) => path !== target.path) ?? links[0];
  if (link === undefined) {
    return refuse(`"${target.path}" is no link to the engine's file, and no rotated link is beside it`);
  }
  const end = await endOfLog(logPath, new RotatedFiles(logPath, archiveLimitBytes(logOptions)));
  return {
    ...newRecord(id, target),
    source: "file",
    position: { ...beginning, ...end },
    history: { path: link === target.path ? `${link}.${timestamp(new Date())}` : link, ...end },
  };
}

/** As kubelets name rotated logs: `20060102-150405`, in UTC. */
function timestamp(date: Date): string {
  return date.toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
}
