/** `dockershim install`: this executable, its units and its configuration, on a node without a package. */
import { constants, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { release } from "node:os";
import { join } from "node:path/posix";
import { arch } from "node:process";
import type { ProcessIo } from "../../cli/process-io.js";
import { messageOf, ShimError, succeeds } from "../../lib/errors.js";
import { type OwnFiles, ownFiles } from "../../lib/own-files.js";
import { commentedFile } from "../../shim/config/commented-file.js";
import { type Config, resolveConfig } from "../../shim/config/resolve.js";
import { programFile } from "../../shim/native/programs.js";
import { checkNode, checkPlaces, isTaken } from "../check-node.js";
import { readInstallRecord } from "../install-record.js";
import { readText } from "../node-paths.js";
import { type PlannedFile, planFiles, planInstall } from "../plan-install.js";
import { planRegistration } from "../register-oci-runtime.js";
import { alone, installSocket, planLines, runSteps, type Step } from "../steps.js";
import { findSystemd, type Systemd } from "../systemd.js";
import {
  configurationPath,
  ociRuntimePath,
  programPath,
  unitNames,
  wantedFiles,
  type WantedFile,
} from "../wanted-files.js";

export interface InstallOptions {
  readonly dryRun: boolean;
  /** Absolute. */
  readonly root: string;
  readonly prefix: string;
  /** Whether Docker is told of the OCI runtime. */
  readonly ociRuntime: boolean;
  readonly completions: Readonly<Record<"bash" | "zsh" | "fish", string>>;
}

/** What tests replace. */
export interface InstallDeps {
  readonly own: Pick<OwnFiles, "self" | "read" | "directory">;
  readonly systemd: Systemd;
  /** That only one of these commands has at a time. */
  readonly socket: string;
  readonly isRoot: boolean;
  readonly kernel: string;
  /** Whether a process of this node listens at the path. */
  readonly isTaken: (path: string) => Promise<boolean>;
  readonly isEnforcing: boolean;
  readonly after?: (step: Step) => void;
}

/** For this node, and for an image that is made on it. */
export async function installDeps(root: string): Promise<InstallDeps> {
  return {
    own: ownFiles(),
    systemd: await findSystemd(root),
    socket: root === "/" ? installSocket : join(openDirectory(root), ".dockershim-install.sock"),
    isRoot: process.geteuid?.() === 0,
    kernel: release(),
    isTaken,
    isEnforcing: (await readFile("/sys/fs/selinux/enforce", "utf8").catch(() => "")).trim() === "1",
  };
}

/** A path of the directory that is short enough for a socket in it, until this process ends. */
function openDirectory(root: string): string {
  try {
    return `/proc/self/fd/${openSync(root, constants.O_RDONLY | constants.O_DIRECTORY)}`;
  } catch (error) {
    throw new ShimError(
      "invalid",
      `--root ${JSON.stringify(root)}: ${messageOf(error)} (nothing is changed)`,
    );
  }
}

type InstallIo = Pick<ProcessIo, "version" | "commit" | "writeOut">;

export async function runInstall(options: InstallOptions, io: InstallIo): Promise<number> {
  return install(options, io, await installDeps(options.root));
}

export async function install(options: InstallOptions, io: InstallIo, deps: InstallDeps): Promise<number> {
  const { root, prefix, dryRun } = options;
  const { own, systemd } = deps;
  if (own.directory !== undefined)
    throw new ShimError(
      "unsupported",
      `command "install": only the executable of a release installs itself, and this is "${own.directory}"; docs/run/install.md tells how a checkout is installed`,
    );
  if (!/^[\w/.,:@+-]+$/.test(prefix))
    throw new ShimError(
      "invalid",
      `command "install": --prefix ${JSON.stringify(prefix)} has characters that mean something else in a unit; choose another path (nothing is changed)`,
    );
  await checkNode({ root, ...deps });
  const work = async (): Promise<number> => {
    const record = await readInstallRecord(root);
    const { units, wanted } = await readWanted(options, own);
    const files = await planFiles(root, wanted, record);
    const config = await effectiveConfig(root, files);
    await checkPlaces(root, prefix, files);
    if (root === "/") await checkSocket(config, record !== undefined, deps);
    const target = { root, prefix, version: io.version, units, systemd };
    const installed = await planInstall(target, files, record);
    // After the program that it names is there.
    const registered = options.ociRuntime ? await planRegistration(target, ociRuntimePath(prefix)) : [];
    const plan = { ...installed, steps: [...installed.steps, ...registered] };
    const from = record === undefined || record.program === io.version ? "" : `, over ${record.program}`;
    io.writeOut(`Install dockershim ${io.version} (${io.commit})${from}:\n`);
    io.writeOut(
      `${[...planLines(plan), ...(plan.steps.length === 0 ? ["  all is in place"] : [])].join("\n")}\n`,
    );
    if (dryRun) {
      io.writeOut("Nothing is changed (--dry-run).\n");
      return 0;
    }
    await runSteps(plan.steps, deps.after).catch((error: unknown) => {
      const { kind, message } = ShimError.from(error);
      throw new ShimError(kind, `${message}; "install" again completes it, "uninstall" removes it`);
    });
    for (const line of advice(options, deps)) io.writeOut(`${line}\n`);
    return 0;
  };
  return dryRun ? work() : alone(deps.socket, work);
}

async function readWanted(
  { prefix, completions }: InstallOptions,
  own: InstallDeps["own"],
): Promise<{ readonly units: Record<string, string>; readonly wanted: readonly WantedFile[] }> {
  const units = Object.fromEntries(unitNames.map((name) => [name, own.read(`packaging/${name}`).toString()]));
  const { stringify } = await import("../../lib/yaml.js");
  const { config } = await resolveConfig([], {}, () => Promise.reject(new Error("no file is named")));
  const wanted = wantedFiles(prefix, {
    program: await readFile(own.self[0]),
    ociRuntime: own.read(programFile("oci-runtime", arch)),
    units,
    // As in the packages: a node of a cluster is NotReady until a cluster network is installed.
    configuration: commentedFile(stringify, { "network-plugin": "cni" }),
    completions,
    manualPage: own.read("dockershim.8.gz"),
    endpoint: endpointOf(config),
  });
  return { units, wanted };
}

/** Of the configuration that the program will read. Throws `invalid` when this version cannot read an edited one. */
async function effectiveConfig(root: string, files: readonly PlannedFile[]): Promise<Config> {
  const file = files.find(({ path }) => path === configurationPath);
  const read = async (path: string): Promise<string> => {
    if (path !== configurationPath) throw new Error("no file is named");
    if (file?.change !== "keep") return file?.content.toString() ?? "";
    return readText(root, path);
  };
  try {
    return (await resolveConfig([{ name: "config", text: configurationPath }], {}, read)).config;
  } catch (error) {
    throw ShimError.from(error).within("this version cannot use the configuration (nothing is changed)");
  }
}

function endpointOf({ containerRuntimeEndpoint: endpoint }: Config): string {
  return endpoint.kind === "unix" ? `unix://${endpoint.path}` : "unix:///var/run/dockershim.sock";
}

/** Throws `conflict` when another program serves the socket: the kubelet's dockershim, or a server without a unit. */
export async function checkSocket(
  { containerRuntimeEndpoint: endpoint }: Config,
  isInstalled: boolean,
  { systemd, isTaken: isTakenHere }: Pick<InstallDeps, "systemd" | "isTaken">,
): Promise<void> {
  if (endpoint.kind !== "unix") return;
  const { path } = endpoint;
  if (!(await isTakenHere(path))) return;
  // The unit's own server, of which a killed install may know nothing yet.
  if (isInstalled && systemd.kind === "running") {
    const isOurs = await succeeds(systemd.run("is-active", "--quiet", ...unitNames));
    if (isOurs) return;
  }
  throw new ShimError(
    "conflict",
    `install dockershim: another program serves "${path}", as a kubelet with dockershim or "npm start" does; stop it, or name another container-runtime-endpoint in ${configurationPath} (nothing is changed)`,
  );
}

function advice({ root, prefix }: InstallOptions, { systemd, isEnforcing }: InstallDeps): readonly string[] {
  const program = programPath(prefix);
  const undo = `Done. To undo: ${join(root, program)} uninstall${root === "/" ? "" : ` --root ${root}`}`;
  return [
    undo,
    ...(systemd.kind === "none"
      ? [
          root === "/"
            ? `systemd does not run here. To start it: ${program} --config=${configurationPath}`
            : `systemctl is not here. In the image: systemctl enable ${unitNames.join(" ")}`,
        ]
      : []),
    ...(isEnforcing && root === "/"
      ? [
          `SELinux is enforcing. If the unit fails with 203/EXEC: restorecon -v ${program} (docs/run/troubleshooting.md)`,
        ]
      : []),
  ];
}
