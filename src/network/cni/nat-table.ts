/** The nat table of the host, one per address family. */
import { execFile, type ExecFileException } from "node:child_process";
import { ShimError } from "../../shim/base/errors.js";
import { readNatRules, removalText } from "./nat-rules.js";

export type AddressFamily = "ipv4" | "ipv6";

export const addressFamilies: readonly AddressFamily[] = ["ipv4", "ipv6"];

export interface NatTable {
  /** As `iptables-save -t nat` prints it; empty where the host has no tool or table for the family. */
  save(family: AddressFamily, signal: AbortSignal): Promise<string>;
  /** Applies `text` as a whole or not at all, leaving the rest of the table. */
  restore(family: AddressFamily, text: string, signal: AbortSignal): Promise<void>;
}

const tools = { ipv4: "iptables", ipv6: "ip6tables" } as const;
/** How long to wait for others that hold the table, in seconds. */
const lockWaitSeconds = "5";
const largestSaveBytes = 256 * 1024 * 1024;
const tries = 3;

/** By the same tools, found by PATH, that the plugins call. */
export class HostNatTable implements NatTable {
  async save(family: AddressFamily, signal: AbortSignal): Promise<string> {
    try {
      return await run(`${tools[family]}-save`, ["-t", "nat"], "", signal);
    } catch (error) {
      signal.throwIfAborted();
      // No tool or no such table: then there are no rules either.
      if (error instanceof ShimError && (error.kind === "notFound" || family === "ipv6")) return "";
      throw error;
    }
  }

  async restore(family: AddressFamily, text: string, signal: AbortSignal): Promise<void> {
    await run(`${tools[family]}-restore`, ["--noflush", "-w", lockWaitSeconds], text, signal);
  }
}

/**
 * Removes all rules and chains of the containers from both families. Others change the table meanwhile, so a removal
 * that does not fit any more is worked out anew. Throws when that does not help.
 */
export async function removeNatRules(
  table: NatTable,
  containerIds: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<void> {
  for (const family of addressFamilies) {
    for (let attempt = 1; ; attempt += 1) {
      const { containers } = readNatRules(await table.save(family, signal));
      const text = removalText(containers.filter(({ containerId }) => containerIds.has(containerId)));
      if (text === undefined) break;
      try {
        await table.restore(family, text, signal);
        break;
      } catch (error) {
        if (attempt >= tries || signal.aborted) throw error;
      }
    }
  }
}

function run(command: string, words: readonly string[], input: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { signal, killSignal: "SIGKILL", maxBuffer: largestSaveBytes } as const;
    const child = execFile(command, words, options, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(failure(command, error, stderr));
    });
    child.stdin?.on("error", () => undefined); // Its exit tells more than EPIPE does.
    child.stdin?.end(input);
  });
}

function failure(command: string, error: ExecFileException, stderr: string): ShimError {
  const missing = error.code === "ENOENT" || (error as NodeJS.ErrnoException).code === "ENOENT";
  const reason = stderr.trim() === "" ? error.message : stderr.trim();
  return new ShimError(missing ? "notFound" : "unknown", `run ${command}: ${reason}`, {}, { cause: error });
}
