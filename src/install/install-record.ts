/** What `dockershim install` has written: its own files are found by it, and an edit of one is seen. */
import { join } from "node:path/posix";
import { ShimError } from "../lib/errors.js";
import { removeFile, writeFileAtomically } from "../lib/files/atomic-file.js";
import { formatRecord, isString, listOf, objectOf, oneOf, parseRecord } from "../lib/files/record-format.js";
import { readRegularFile } from "../lib/files/state-files.js";
import { localPath } from "./node-paths.js";

export const recordDirectory = "/var/lib/dockershim-install";
const recordPath = join(recordDirectory, "record.json");
const limitBytes = 1024 * 1024;

export interface InstallRecord {
  readonly version: 1;
  /** Version of the program. */
  readonly program: string;
  readonly prefix: string;
  /** `installing` and `removing`: not finished, by a kill or a failure. */
  readonly state: "installing" | "installed" | "removing";
  /** Whether the units were enabled, which is done once: the administrator may have disabled them since. */
  readonly enabled: boolean;
  /** Names of the units that were enabled. */
  readonly units: readonly string[];
  /** `sha256`: of what was written, last; while it is not finished, also of what is to be written. */
  readonly files: readonly { readonly path: string; readonly sha256: readonly string[] }[];
  /** Directories that were made, parents first. */
  readonly directories: readonly string[];
}

const isNodePath = (value: unknown): boolean =>
  isString(value) && value.startsWith("/") && !value.split("/").includes("..");

const schema = {
  version: (value: unknown) => value === 1,
  program: isString,
  prefix: isNodePath,
  state: oneOf(["installing", "installed", "removing"]),
  enabled: (value: unknown) => typeof value === "boolean",
  units: listOf((value) => isString(value) && /^dockershim[\w@.-]*$/.test(value)),
  files: listOf(objectOf({ path: isNodePath, sha256: listOf(isString) })),
  directories: listOf(isNodePath),
};

/** Undefined where nothing was installed. Throws `precondition` for the record of a newer version, and for a damaged one. */
export async function readInstallRecord(root: string): Promise<InstallRecord | undefined> {
  const path = await localPath(root, recordPath);
  const reading = await readRegularFile(path, limitBytes);
  if (reading.kind === "absent") return undefined;
  const refuse = (reason: string): ShimError =>
    new ShimError("precondition", `read ${JSON.stringify(path)}: ${reason}`);
  if (reading.kind === "unfit") throw refuse(reading.reason);
  const parsed = parseRecord(reading.bytes, {
    schema,
    fromFile: (object) => object as unknown as InstallRecord,
  });
  if (parsed.kind === "newer")
    throw refuse(`version ${parsed.version} is of a later release; use the dockershim that wrote it`);
  if (parsed.kind === "corrupt")
    throw refuse(`${parsed.reason}; move the file away, and remove the installation by hand`);
  return parsed.record;
}

export async function writeInstallRecord(root: string, record: InstallRecord): Promise<void> {
  await writeFileAtomically(await localPath(root, recordPath), formatRecord(record), {
    mode: 0o600,
    temporaryPrefix: ".dockershim-",
    directoryMode: 0o700,
  });
}

export async function removeInstallRecord(root: string): Promise<void> {
  await removeFile(await localPath(root, recordPath));
}
