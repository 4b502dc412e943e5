/** `dockershim uninstall`: what `install` wrote goes, but for what was edited. Pods keep running. */
import type { ProcessIo } from "../../cli/process-io.js";
import { ShimError } from "../../lib/errors.js";
import { readInstallRecord, recordDirectory } from "../install-record.js";
import { checkOciRuntime } from "../oci-runtime-in-use.js";
import { planUninstall } from "../plan-uninstall.js";
import { alone, planLines, runSteps } from "../steps.js";
import { type InstallDeps, installDeps } from "./install-command.js";

export interface UninstallOptions {
  readonly dryRun: boolean;
  readonly root: string;
}

type UninstallIo = Pick<ProcessIo, "writeOut">;
type UninstallDeps = Pick<InstallDeps, "systemd" | "socket" | "isRoot" | "after">;

export async function runUninstall(options: UninstallOptions, io: UninstallIo): Promise<number> {
  return uninstall(options, io, await installDeps(options.root));
}

export async function uninstall(
  { dryRun, root }: UninstallOptions,
  io: UninstallIo,
  { systemd, socket, isRoot, after }: UninstallDeps,
): Promise<number> {
  if (root === "/" && !isRoot)
    throw new ShimError(
      "precondition",
      "uninstall dockershim: run it as root, as by sudo (nothing is changed)",
    );
  const work = async (): Promise<number> => {
    const record = await readInstallRecord(root);
    if (record === undefined)
      throw new ShimError(
        "precondition",
        `uninstall dockershim: no "dockershim install" was here (there is no ${recordDirectory}); a package is removed by apt-get or dnf`,
      );
    await checkOciRuntime(root, record);
    const plan = await planUninstall({ root, systemd }, record);
    io.writeOut(`Uninstall dockershim ${record.program}:\n${planLines(plan).join("\n")}\n`);
    io.writeOut(
      "  keep    pods, which go on without a runtime, and their state: /var/lib/dockershim, /var/log/pods,\n" +
        '          /var/lib/cni; "dockershim wipe" removes these, as long as the program is here\n',
    );
    if (dryRun) {
      io.writeOut("Nothing is changed (--dry-run).\n");
      return 0;
    }
    await runSteps(plan.steps, after);
    io.writeOut("Done. To undo: dockershim install\n");
    return 0;
  };
  return dryRun ? work() : alone(socket, work);
}
