/** Version and commit of this build. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ProcessIo } from "../cli/process-io.js";

export type BuildInfo = Pick<ProcessIo, "version" | "commit">;

/** Version from package.json; commit from the files of a git checkout, else `unknown`. */
export async function readBuildInfo(packageDirectory: string): Promise<BuildInfo> {
  const { version } = JSON.parse(await readFile(join(packageDirectory, "package.json"), "utf8")) as {
    version: string;
  };
  return { version, commit: (await readCommit(join(packageDirectory, ".git"))) ?? "unknown" };
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
