/** What `dockershim install` does on a node, by what is there. Reads only; the steps write. */
import { dirname, join } from "node:path/posix";
import { ShimError } from "../lib/errors.js";
import { NodeFiles } from "../migrate/files/node-files.js";
import { ownTemporaryName, sweepTemporaryFiles, writeFileAtomically } from "../lib/files/atomic-file.js";
import { type InstallRecord, writeInstallRecord } from "./install-record.js";
import { localPath, missingDirectories, presentDigest, sha256 } from "./node-paths.js";
import type { Plan, Step } from "./steps.js";
import type { Systemd } from "./systemd.js";
import { crictlPath, unitsToEnable, type WantedFile } from "./wanted-files.js";

export interface PlannedFile extends WantedFile {
  readonly change: "create" | "replace" | "same" | "keep";
  /** What an install wrote there, or may have written. */
  readonly recorded: readonly string[];
}

/** Throws `conflict` for a program and a unit that no install wrote. */
export async function planFiles(
  root: string,
  wanted: readonly WantedFile[],
  record: InstallRecord | undefined,
): Promise<readonly PlannedFile[]> {
  const planned: PlannedFile[] = [];
  for (const file of wanted) {
    const present = await presentDigest(root, file.path);
    const entry = record?.files.find(({ path }) => path === file.path);
    const recorded = entry?.sha256 ?? [];
    const change =
      present === sha256(file.content)
        ? "same"
        : present === "absent"
          ? "create"
          : recorded.includes(present)
            ? "replace"
            : "keep";
    const isOwn = file.role === "program" || file.role === "unit";
    if (change === "keep" && isOwn && entry === undefined)
      throw new ShimError(
        "conflict",
        `install ${JSON.stringify(file.path)}: another file is there, which no "dockershim install" wrote; move it away, then install again (nothing is changed)`,
      );
    // Of the same path, but another program: of an earlier install, which was replaced by hand.
    planned.push({
      ...file,
      recorded,
      change: change === "keep" && file.role === "program" ? "replace" : change,
    });
  }
  return planned;
}

export interface InstallTarget {
  readonly root: string;
  readonly prefix: string;
  /** Of the program that is installed. */
  readonly version: string;
  readonly units: Readonly<Record<string, string>>;
  readonly systemd: Systemd;
}

export async function planInstall(
  { root, prefix, version, units, systemd }: InstallTarget,
  files: readonly PlannedFile[],
  before: InstallRecord | undefined,
): Promise<Plan> {
  const written = files.filter(({ change }) => change === "create" || change === "replace");
  const enabled = unitsToEnable(units);
  const made = await missingDirectories(
    root,
    written.map(({ path }) => path),
  );
  // A file that was there with the same content before the first install is another program's.
  const own = files.filter(({ change, recorded }) => change !== "same" || recorded.length > 0);
  const others = (before?.files ?? []).filter(({ path }) => !files.some((file) => file.path === path));
  const base = {
    version: 1,
    program: version,
    prefix,
    units: [...new Set([...(before?.units ?? []), ...enabled])],
    directories: [...new Set([...(before?.directories ?? []), ...made])].sort(),
  } as const;
  const listed = (isFinished: boolean): InstallRecord["files"] => [
    ...own
      .filter(({ change, recorded }) => change !== "keep" || recorded.length > 0)
      .map(({ path, content, recorded, change }) => ({
        path,
        sha256:
          change === "keep"
            ? recorded
            : isFinished
              ? [sha256(content)]
              : [...new Set([...recorded, sha256(content)])],
      })),
    ...others,
  ];
  const isEnabled = before?.enabled ?? false;
  // A node's pods have one server.
  const isTaken = !isEnabled && (await hasCriDockerd(root));
  // An earlier install had nothing to enable them with, or found units of cri-dockerd.
  const isToEnable = !isEnabled && !isTaken && systemd.kind !== "none";
  const isComplete = before?.state === "installed" && before.program === version && !isToEnable;
  const isDone = written.length === 0 && isComplete;
  const note: Step = {
    text: "",
    run: () =>
      writeInstallRecord(root, { ...base, state: "installing", enabled: isEnabled, files: listed(false) }),
  };
  const finish: Step = {
    text: "",
    run: () =>
      writeInstallRecord(root, {
        ...base,
        ...{ state: "installed", files: listed(true) },
        enabled: isEnabled || (systemd.kind !== "none" && !isTaken),
      }),
  };
  const steps = isDone
    ? []
    : [
        note,
        ...written.map((file) => writeStep(root, file)),
        ...unitSteps(systemd, isTaken ? [] : enabled, { isEnabled, isFirst: before === undefined }),
        finish,
      ];
  const kept = files.flatMap(keptLine);
  return {
    steps,
    kept: isTaken ? [...kept, `keep    ${enabled.join(" ")} disabled: units of cri-dockerd are here`] : kept,
  };
}

/** As the packages look for its units, by any of their usual names. The .deb of cri-dockerd leaves masked ones behind. */
async function hasCriDockerd(root: string): Promise<boolean> {
  const files = new NodeFiles(root);
  for (const directory of ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"]) {
    for (const name of await files.names(directory)) {
      const path = join(directory, name);
      if (/^cri-docker.*\.service$/.test(name) && !(await isMasked(files, path))) return true;
    }
  }
  return false;
}

/** As systemd sees it: a link to /dev/null, or an empty file. */
async function isMasked(files: NodeFiles, path: string): Promise<boolean> {
  if ((await files.linkTarget(path)) === "/dev/null") return true;
  const reading = await files.read(path);
  return reading.kind === "read" && reading.text === "";
}

function writeStep(root: string, { path, content, mode, change }: PlannedFile): Step {
  return {
    text: `${change === "create" ? "write  " : "replace"} ${path}`,
    run: async () => {
      const local = await localPath(root, path);
      // Of an install that was killed in this place.
      sweepTemporaryFiles(dirname(local), { patterns: [ownTemporaryName] });
      await writeFileAtomically(local, content, {
        ...{ mode, temporaryPrefix: ".dockershim-", directoryMode: 0o755 },
      });
    },
  };
}

function unitSteps(
  systemd: Systemd,
  units: readonly string[],
  { isEnabled, isFirst }: { readonly isEnabled: boolean; readonly isFirst: boolean },
): readonly Step[] {
  const step = (...words: readonly string[]): Step => ({
    text: `run     systemctl ${words.join(" ")}`,
    run: () => systemd.run(...words),
  });
  if (systemd.kind === "none") return [];
  const isRunning = systemd.kind === "running";
  const enable =
    isEnabled || units.length === 0 ? [] : [["enable", ...(isRunning ? ["--now"] : []), ...units]];
  // Pods keep running, and sockets stay. What the administrator has disabled or stopped stays so.
  // A killed install may have started the service of another version.
  const services = isFirst ? [] : units.filter((unit) => unit.endsWith(".service"));
  const restart = services.length === 0 ? [] : [["try-restart", ...services]];
  return (isRunning ? [["daemon-reload"], ...restart, ...enable] : enable).map((words) => step(...words));
}

function keptLine({ path, change, role, recorded }: PlannedFile): readonly string[] {
  if (change !== "keep") return [];
  const hint = {
    unit: "; this version's is not used. Edits belong into a drop-in (systemctl edit)",
    configuration: "; dockershim config --output commented prints this version's options",
    program: "",
    other: "",
  }[role];
  const what = recorded.length > 0 ? "it was edited" : "it was there";
  return [`keep    ${path}: ${what}${path === crictlPath ? "" : hint}`];
}
