/** The kubelet of a node: unit, flags, configuration files, version and process. */
import { basename, join } from "node:path/posix";
import type { KubeletFacts, KubeletVersion, ServiceFacts, FlagFact } from "../facts/facts.js";
import type { NodeFiles } from "../files/node-files.js";
import { loadUnit } from "../systemd/load-unit.js";
import { unitCommand, type UnitCommand } from "../systemd/unit-command.js";
import { flagsOf, lastFlag } from "./flags.js";
import { mergeSettings, readConfig, readConfigDirectory } from "./read-config.js";
import { runsThisProgram } from "./target.js";
import { messageOf } from "../../lib/errors.js";
import { readConfigFile } from "../../shim/config/config-file.js";
import { configFileVariable, type Given, readEnvironment } from "../../shim/config/given.js";
import { options } from "../../shim/config/options.js";
import type { Problem } from "../systemd/unit-file.js";

export const kubeadmFlagsFile = "/var/lib/kubelet/kubeadm-flags.env";
const instanceConfigFile = "/var/lib/kubelet/instance-config.yaml";

export async function readService(files: NodeFiles, name: string): Promise<ServiceFacts | undefined> {
  const unit = await loadUnit(files, name);
  if (unit === undefined) return undefined;
  const command = await unitCommand(files, unit);
  const flags = flagsOf(command.words);
  if (!runsThisProgram(command)) return { unit, command, flags };
  const settings = await readOwnSettings(files, command, flags);
  const problems = [...command.problems, ...settings.problems];
  return { unit, command: { ...command, problems }, flags: [...settings.flags, ...flags] };
}

/** `givenVersion`: of the operator; `askProgram` runs the kubelet's program with `--version`. */
export async function readKubelet(
  files: NodeFiles,
  givenVersion: string | undefined,
  askProgram: (program: string) => Promise<string | undefined>,
): Promise<KubeletFacts> {
  const service = await readService(files, "kubelet.service");
  const running = await findRunningKubelet(files);
  const flags = service?.flags ?? running?.flags ?? [];
  const configPath = lastFlag(flags, "config")?.value;
  const config = configPath === undefined ? undefined : await readConfig(files, configPath);
  const directory = lastFlag(flags, "config-dir")?.value ?? "";
  const dropIns = directory === "" ? [] : await readConfigDirectory(files, directory);
  const settings = mergeSettings(config === undefined ? dropIns : [config, ...dropIns]);
  const instanceConfig = await readConfig(files, instanceConfigFile);
  const isKubeadm = (await files.kindOf(kubeadmFlagsFile)) !== "absent" || instanceConfig !== undefined;
  const version =
    parseVersion(givenVersion, "flag --kubelet-version") ?? (await askedVersion(service, askProgram));
  const wrapper = await wrapperOf(files, service);
  return { service, wrapper, config, dropIns, settings, instanceConfig, version, running, isKubeadm };
}

/** What the program of the kubelet's service answers. */
export async function askedVersion(
  service: ServiceFacts | undefined,
  askProgram: (program: string) => Promise<string | undefined>,
): Promise<KubeletVersion | undefined> {
  const program = service?.command.words[0]?.text;
  return isKubelet(program) ? parseVersion(await askProgram(program), `${program} --version`) : undefined;
}

/** A shell, Docker or a wrapper would answer with a version of its own, or start what it wraps. */
function isKubelet(program: string | undefined): program is string {
  return program?.startsWith("/") === true && basename(program) === "kubelet";
}

/** Whether the words start a kubelet themselves; hyperkube is one program with several names. */
export function isKubeletCommand(words: readonly { readonly text: string }[]): boolean {
  const name = basename(words[0]?.text ?? "");
  return name === "kubelet" || (name === "hyperkube" && words[1]?.text === "kubelet");
}

async function wrapperOf(files: NodeFiles, service: ServiceFacts | undefined): Promise<string | undefined> {
  const program = service?.command.words[0]?.text;
  if (service === undefined || program === undefined) return undefined;
  const isKubelet = isKubeletCommand(service.command.words) && !(await isOtherProgram(files, program));
  return isKubelet ? undefined : program;
}

/** Where systemd looks for a program without a path. */
const programDirectories = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];

/** Whether what is there is a script or a launcher, which need not pass on its arguments. */
export async function isOtherProgram(files: NodeFiles, program: string): Promise<boolean> {
  const paths = program.includes("/") ? [program] : programDirectories.map((one) => join(one, program));
  for (const path of paths) {
    const target = await files.resolve(path).catch(() => path);
    if ((await files.kindOf(target)) === "absent") continue;
    // hyperkube is each of its programs by the name of a link.
    const isNamed = target.includes(basename(program)) || target.includes("hyperkube");
    return !isNamed || (await files.isMachineCode(target)) === false;
  }
  return false;
}

/** `Kubernetes v1.23.17` or `1.23`. */
export function parseVersion(text: string | undefined, source: string): KubeletVersion | undefined {
  const [, version, minor] = /(?:^|v|\s)(1\.(\d{1,3})(?:\.\d+)?)(?=$|[\s+-])/.exec(text ?? "") ?? [];
  return version === undefined ? undefined : { text: version, minor: Number(minor), source };
}

export async function findRunningKubelet(files: NodeFiles): Promise<KubeletFacts["running"]> {
  for await (const running of runningKubelets(files)) return running;
  return undefined;
}

export async function* runningKubelets(
  files: NodeFiles,
): AsyncGenerator<NonNullable<KubeletFacts["running"]>> {
  for (const name of await files.names("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const file = join("/proc", name, "cmdline");
    const reading = await files.read(file);
    if (reading.kind !== "read") continue;
    const words = reading.text.split("\0").filter((word) => word !== "");
    const [first = "", second = ""] = words;
    if (!isKubeletCommand([{ text: first }, { text: second }])) continue;
    const placed = words.map((text) => ({ text, raw: text, file, line: 1 }));
    yield { pid: Number(name), flags: flagsOf(placed) };
  }
}

/** What this program's unit sets besides flags: its configuration file, and the variables of its environment. */
interface OwnSettings {
  /** As flags without words of the command. Later ones win, and real flags win over all. */
  readonly flags: readonly FlagFact[];
  readonly problems: readonly Problem[];
}

/** Never throws. */
async function readOwnSettings(
  files: NodeFiles,
  { variables }: UnitCommand,
  flags: readonly FlagFact[],
): Promise<OwnSettings> {
  const found: FlagFact[] = [];
  const problems: Problem[] = [];
  const add = ({ field, text: value }: Given, file: string, line: number): void => {
    found.push({ name: options[field].name, value, raw: [], file, line });
  };
  const path = lastFlag(flags, "config")?.value ?? variables.get(configFileVariable)?.value ?? "";
  try {
    for (const given of path === "" ? [] : await readConfigFile(path, (name) => textOf(files, name)))
      add(given, path, Number(given.detail.slice(path.length + 1)));
  } catch (error) {
    problems.push({ place: path, text: `is not understood: ${messageOf(error)}` });
  }
  for (const [name, { value, file, line }] of variables) {
    try {
      for (const given of readEnvironment({ [name]: value })) add(given, file, line);
    } catch (error) {
      problems.push({ place: `${file}:${line}`, text: `is not understood: ${messageOf(error)}` });
    }
  }
  return { flags: found, problems };
}

async function textOf(files: NodeFiles, path: string): Promise<string> {
  const reading = await files.read(path);
  if (reading.kind === "read") return reading.text;
  throw new Error(reading.kind === "absent" ? "there is no such file" : reading.reason);
}
