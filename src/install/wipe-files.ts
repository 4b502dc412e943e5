/** The directories and sockets that this program has on a node. */
import { lstat, readdir, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { namesIn } from "../lib/files/directories.js";
import { isServed } from "../lib/unix-socket.js";
import type { Step } from "./steps.js";

export interface FilesToWipe {
  /** That of the configuration, and `playIn`. */
  readonly stateDirectories: readonly string[];
  /** The state directory where play has its files, in a directory `play`. In another one that is not this program's. */
  readonly playIn: string;
  /** Paths that an option may have named: nothing else than a socket is removed there. */
  readonly sockets: readonly string[];
  /** Of its own. */
  readonly directories: readonly string[];
  readonly keepClaims: boolean;
  /** Unmounts all below it first. */
  readonly removeTree: (path: string) => Promise<void>;
}

/** Names that this program, its set-up, dockershim and cri-dockerd make in a state directory: docs/run/files-on-disk.md. */
const contents = new Set([
  ...[
    "sandbox",
    "pods",
    "containers",
    "logs",
    "quarantine",
    "history",
    "programs",
    "play",
    "engine-id",
    "pod-cidrs.json",
  ],
  ...["instance.sock", "setup.json", "setup-packages.log", "dockerd.log"],
]);
/** Temporary files of killed writers. */
const temporary = /^\.(dockershim-|setup\.json\.)/;

/** Whether an entry of a state directory is this program's. Other programs may use it, too. */
export function isOwnEntry(name: string): boolean {
  return contents.has(name) || temporary.test(name);
}

/** What `npm start` has installed, and how to undo it: the only place that knows it. */
const setupFiles = ["setup.json", "setup-packages.log", "dockerd.log"];
const claims = "claims.d";

/** Directories of files alone. Docker, kubelets, Podman and others have directories of these names that hold other things. */
const fileNames: Readonly<Record<string, RegExp>> = {
  ...{ sandbox: /^/, quarantine: /^/, programs: /^/ },
  ...{ pods: /\.json$/, containers: /\.json$/, logs: /\.json$/, history: /^v\d+-\d+\.jsonl$/ },
};

async function isOwn(directory: string, name: string, { playIn }: FilesToWipe): Promise<boolean> {
  if (name === "play") return directory === playIn;
  const form = fileNames[name];
  if (!isOwnEntry(name) || form === undefined) return isOwnEntry(name);
  const path = join(directory, name);
  const entries = await readdir(path, { withFileTypes: true }).catch(() => undefined);
  return (
    entries?.every((entry) => entry.isFile() && (form.test(entry.name) || temporary.test(entry.name))) ===
    true
  );
}

export interface WipedFiles {
  readonly steps: readonly Step[];
  readonly kept: readonly string[];
}

export async function fileSteps(files: FilesToWipe): Promise<WipedFiles> {
  const { stateDirectories, sockets, directories } = files;
  const steps: Step[] = [];
  const kept: string[] = [];
  for (const path of sockets) {
    const status = await lstat(path).catch(() => undefined);
    if (status?.isSocket() === true) steps.push({ text: `remove  ${path}`, run: () => removeSocket(path) });
    else if (status !== undefined) kept.push(`keep    ${path}: it is no socket`);
  }
  for (const path of directories) {
    if ((await lstat(path).catch(() => undefined)) !== undefined)
      steps.push({ text: `remove  ${path}`, run: () => rm(path, { recursive: true, force: true }) });
  }
  for (const directory of new Set(stateDirectories)) {
    const names = await namesIn(directory);
    if (names.length === 0 && (await lstat(directory).catch(() => undefined)) === undefined) continue;
    const left = await keptNames(directory, names, files);
    kept.push(...left.map(({ path, reason }) => `keep    ${path}: ${reason}`));
    steps.push({ text: `remove  ${directory}`, run: () => removeState(directory, files) });
  }
  return { steps, kept };
}

/** A server may have been stopped since the plan was made. */
async function removeSocket(path: string): Promise<void> {
  if (await isServed(path).catch(() => false)) throw new Error("a program still serves it");
  await rm(path, { force: true });
}

interface KeptName {
  readonly path: string;
  readonly reason: string;
}

async function keptNames(
  directory: string,
  names: readonly string[],
  files: FilesToWipe,
): Promise<readonly KeptName[]> {
  const { keepClaims, playIn } = files;
  const hasClaims =
    keepClaims && directory === playIn && (await namesIn(join(directory, "play", claims))).length > 0;
  const others: string[] = [];
  for (const name of names)
    if (name !== "lost+found" && !(await isOwn(directory, name, files))) others.push(name);
  return [
    ...(hasClaims
      ? [{ path: join(directory, "play", claims), reason: "data of claims of play; --claims removes it" }]
      : []),
    ...names
      .filter((name) => setupFiles.includes(name))
      .map((name) => ({
        path: join(directory, name),
        reason: "of npm start, which says there how to undo it",
      })),
    ...others.map((name) => ({ path: join(directory, name), reason: "of another program" })),
  ];
}

async function removeState(directory: string, files: FilesToWipe): Promise<void> {
  const { keepClaims, removeTree } = files;
  const play = join(directory, "play");
  const hasClaims = keepClaims && (await namesIn(join(play, claims))).length > 0;
  for (const name of await namesIn(directory)) {
    if (setupFiles.includes(name) || !(await isOwn(directory, name, files))) continue;
    if (name !== "play" || !hasClaims) await removeTree(join(directory, name));
    else for (const one of await namesIn(play)) if (one !== claims) await removeTree(join(play, one));
  }
  // Not empty: something was kept, and is named.
  await rmdir(directory).catch(() => undefined);
}
