/** Which workloads attached plays have: a claim counts as long as the socket beside it is served. */
import { randomBytes } from "node:crypto";
import { mkdir, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { ShimError, isKind } from "../../lib/errors.js";
import { writeFileAtomically } from "../../lib/files/atomic-file.js";
import { namesIn } from "../../lib/files/directories.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { bindUnixSocket, isServed } from "../../lib/unix-socket.js";
import { list, mandatory, object, parseStored, string } from "../manifests/schema.js";
import { forRootAlone, playPrefix } from "./play-store.js";

export interface Claim {
  readonly id: string;
  /** See `workloadName`. */
  readonly workloads: readonly string[];
  /** The process of the play lives. Otherwise it was killed, or has given up. */
  readonly isHeld: boolean;
}

export interface HeldClaim {
  readonly change: (workloads: ReadonlySet<string>) => Promise<void>;
  /** The workloads are no longer of this play. */
  readonly release: () => Promise<void>;
  /** The same, and what the play has done to the pods is to be repaired. */
  readonly abandon: () => Promise<void>;
}

const readClaim = object({ workloads: mandatory(list(string())) });

/** `directory`: of a PlayStore. */
export async function holdClaim(directory: string, workloads: ReadonlySet<string>): Promise<HeldClaim> {
  const id = randomBytes(4).toString("hex");
  const server = createServer((socket) => socket.on("error", () => undefined).destroy());
  // The work of the play keeps the process alive, not this.
  server.unref();
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const bound = await bindUnixSocket(server, socketOf(directory, id));
  const write = (names: ReadonlySet<string>): Promise<void> =>
    writeFileAtomically(fileOf(directory, id), JSON.stringify({ workloads: [...names] }), forRootAlone);
  const close = async (): Promise<void> => {
    await bound.unlink();
    server.close();
  };
  let last = workloads;
  const change = async (names: ReadonlySet<string>): Promise<void> => {
    await write(names);
    last = names;
  };
  try {
    await change(workloads);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    change,
    release: async () => {
      await rm(fileOf(directory, id), { force: true });
      await close();
    },
    abandon: async () => {
      await close();
      await write(last); // So that a supervisor looks at once.
    },
  };
}

/** Claims that cannot be read are left out. */
export async function listClaims(directory: string): Promise<readonly Claim[]> {
  const claims: Claim[] = [];
  for (const name of await namesIn(directory)) {
    const [, id] = /^play-at-([0-9a-f]{8})\.json$/.exec(name) ?? [];
    if (id === undefined) continue;
    const workloads = await readWorkloads(fileOf(directory, id));
    if (workloads !== undefined)
      claims.push({ id, workloads, isHeld: await isServed(socketOf(directory, id)) });
  }
  return claims;
}

/** Removes a claim that no process holds. */
export async function removeClaim(directory: string, id: string): Promise<void> {
  await rm(fileOf(directory, id), { force: true });
  await rm(socketOf(directory, id), { force: true });
}

async function readWorkloads(path: string): Promise<readonly string[] | undefined> {
  try {
    const text = await readFile(path, "utf8");
    return parseStored(text, readClaim).workloads;
  } catch (error) {
    if (hasCode(error, "ENOENT") || isKind(error, "invalid")) return undefined;
    throw ShimError.from(error).within(`read "${path}"`);
  }
}

function fileOf(directory: string, id: string): string {
  return join(directory, `${playPrefix}at-${id}.json`);
}

function socketOf(directory: string, id: string): string {
  return join(directory, `at-${id}.sock`);
}
