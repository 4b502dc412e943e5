/** Version and commit of this build. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ProcessIo } from "../cli/process-io.js";
import type { OwnFiles } from "../lib/own-files.js";

export type BuildInfo = Pick<ProcessIo, "version" | "commit">;

/** Version and commit of package.json, where a build writes the commit; else that of a git checkout, or `unknown`. */
export async function readBuildInfo({
  read,
  directory,
}: Pick<OwnFiles, "read" | "directory">): Promise<BuildInfo> {
  const { version, commit } = JSON.parse(read("package.json").toString()) as {
    version: string;
    commit?: string;
  };
  const ofCheckout = directory === undefined ? undefined : await readCommit(join(directory, ".git"));
  return { version, commit: commit ?? ofCheckout ?? "unknown" };
}

async function readCommit(gitDirectory: string): Promise<string | undefined> {
  const read = (name: string): Promise<string | undefined> =>
    readFile(join(gitDirectory, name), "utf8").catch(() => undefined);
  const head = (await read("HEAD"))?.trim();
  const ref = /^ref: (refs\/[\w./-]+)$/.exec(head ?? "")?.[1];
  // Packed refs are lines "<commit> <ref>" of one file.
  const packed =
    ref === undefined
      ? undefined
      : (await read("packed-refs"))?.split("\n").find((line) => line.endsWith(` ${ref}`));
  const commit = ref === undefined ? head : ((await read(ref)) ?? packed);
  return /^[0-9a-f]{12}/.exec(commit ?? "")?.[0];
}
