/** What `dockershim uninstall` does: what `install` wrote, and nobody edited, goes. */
import { dirname, join } from "node:path/posix";
import { ownTemporaryName, removeFile, sweepTemporaryFiles } from "../lib/files/atomic-file.js";
import {
  type InstallRecord,
  recordDirectory,
  removeInstallRecord,
  writeInstallRecord,
} from "./install-record.js";
import { isThere, localPath, presentDigest, removeDirectories } from "./node-paths.js";
import type { Plan, Step } from "./steps.js";
import type { Systemd } from "./systemd.js";
import { unitDirectory } from "./wanted-files.js";

export async function planUninstall(
  { root, systemd }: { readonly root: string; readonly systemd: Systemd },
  record: InstallRecord,
): Promise<Plan> {
  const steps: Step[] = [
    {
      text: "",
      run: async () => {
        await writeInstallRecord(root, { ...record, state: "removing" });
        await sweepOwn(root, record);
      },
    },
    ...(await disableSteps({ root, systemd }, record)),
  ];
  const kept: string[] = [];
  // Units first: none is left without its program.
  for (const { path, sha256 } of record.files.toReversed()) {
    const present = await presentDigest(root, path);
    if (present === "absent") continue;
    if (!sha256.includes(present)) {
      kept.push(`keep    ${path}: it was edited`);
      continue;
    }
    const run = async (): Promise<void> => {
      await removeFile(await localPath(root, path));
    };
    steps.push({ text: `remove  ${path}`, run });
  }
  if (systemd.kind === "running")
    steps.push({ text: "run     systemctl daemon-reload", run: () => systemd.run("daemon-reload") });
  steps.push(
    { text: "", run: () => removeDirectories(root, record.directories) },
    // Last: it says what is to be removed.
    { text: "", run: () => removeInstallRecord(root) },
    { text: "", run: () => removeDirectories(root, [recordDirectory]) },
  );
  return { steps, kept };
}

/** Units that are there: those of a removal that was killed were stopped before their files went. */
async function disableSteps(
  { root, systemd }: { readonly root: string; readonly systemd: Systemd },
  { units }: InstallRecord,
): Promise<readonly Step[]> {
  const present: string[] = [];
  for (const unit of units) if (await isThere(root, join(unitDirectory, unit))) present.push(unit);
  if (systemd.kind === "none" || present.length === 0) return [];
  const words = ["disable", ...(systemd.kind === "running" ? ["--now"] : []), ...present];
  return [{ text: `run     systemctl ${words.join(" ")}`, run: () => systemd.run(...words) }];
}

/** Temporary files of an install that was killed. */
async function sweepOwn(root: string, { files }: InstallRecord): Promise<void> {
  for (const { path } of [...files, { path: join(recordDirectory, "x") }]) {
    const directory = dirname(await localPath(root, path));
    sweepTemporaryFiles(directory, { patterns: [ownTemporaryName] });
  }
}
