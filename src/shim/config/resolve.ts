/** Command line, environment and file → one checked `Config`. */
import { ShimError, messageOf } from "../../lib/errors.js";
import { readConfigFile } from "./config-file.js";
import { type ContextFiles, type DockerContext, findEngine } from "./docker-context.js";
import { type DockerEndpoint, dockerEndpointKind } from "./endpoints.js";
import { type Environment, type Given, configFileVariable, fieldOfFlag, readEnvironment } from "./given.js";
import { logLevelOfVerbosity } from "./value-kinds.js";
import { inDockerRoot } from "../../domain/docker-root.js";
import { defaultOf, type PlainValue, type ProgramName } from "./option.js";
import { type OptionField, type OptionValues, optionList, options } from "./options.js";
import { ignoredFlags } from "./other-flags.js";

/**
 * The checked values of all options. Durations are milliseconds, paths are absolute. Fields as in `options`.
 */
export type Config = Omit<OptionValues, "dockerEndpoint" | "verbosity"> & {
  /** In whose place the program runs: it reads the checkpoints afterwards. */
  readonly programName: ProgramName;
  /** Whether the start fails without the socket for cAdvisor: it was asked for. */
  readonly cadvisorSocketRequired: boolean;
  readonly dockerEndpoint: DockerEndpoint;
  /** Context of Docker's command line, which the endpoint is from. */
  readonly dockerContext: DockerContext | undefined;
};

export type Source = "flag" | "environment" | "file" | "default";

/** What `dockershim config` shows of one option. */
export interface EffectiveValue {
  readonly value: PlainValue;
  readonly source: Source;
  /** The flag, the variable, or file and line; empty for a default. */
  readonly detail: string;
}

export interface ResolvedConfig {
  readonly config: Config;
  /** By option name, in the order of the documentation. */
  readonly sources: Readonly<Record<string, EffectiveValue>>;
  /** Problems that do not prevent the start. */
  readonly warnings: readonly string[];
}

/** A flag as it was given; `name` without dashes. */
export interface GivenFlag {
  readonly name: string;
  readonly text: string;
}

/** Flag over environment over file over default. */
const rank: Readonly<Record<Source, number>> = { flag: 3, environment: 2, file: 1, default: 0 };

/**
 * The effective configuration. Checks every value, even if a source of higher precedence overrides it. Throws
 * `invalid`, with one line that names the source, the value and the reason.
 */
export async function resolveConfig(
  flags: readonly GivenFlag[],
  environment: Environment,
  readFile: (path: string) => Promise<string>,
  isSocket: (path: string) => Promise<boolean> = () => Promise.resolve(false),
  programName: ProgramName = "dockershim",
): Promise<ResolvedConfig> {
  const fromFlags = flagsToGiven(flags);
  const fromEnvironment = readEnvironment(environment);
  const file = flags.findLast(({ name }) => name === "config")?.text ?? environment[configFileVariable] ?? "";
  const fromFile = file === "" ? [] : await readConfigFile(file, readFile);

  const values: Partial<Record<OptionField, unknown>> = {};
  const chosen: Partial<Record<OptionField, EffectiveValue>> = {};
  for (const [field, option] of optionList) {
    const { kind } = option;
    const value = kind.parse(defaultOf(option, programName));
    values[field] = value;
    chosen[field] = { value: kind.format(value), source: "default", detail: "" };
  }
  // Lowest precedence first, because later values overwrite earlier ones.
  for (const given of [...fromFile, ...fromEnvironment, ...fromFlags]) {
    const value = parseGiven(given);
    values[given.field] = value;
    const { kind } = options[given.field] as { kind: { format(value: unknown): PlainValue } };
    chosen[given.field] = { value: kind.format(value), source: given.source, detail: given.detail };
  }
  // Complete, because the defaults contain every option.
  return settle(
    values as OptionValues,
    chosen as Record<OptionField, EffectiveValue>,
    environment,
    ignoredWarnings(flags),
    { readFile, isSocket, programName },
  );
}

function parseGiven({ field, text, place }: Given): unknown {
  try {
    return options[field].kind.parse(text);
  } catch (error) {
    throw new ShimError(
      "invalid",
      `${place}: ${quoteValue(text)}: ${messageOf(error)}`,
      {},
      { cause: error },
    );
  }
}

/** On one line, of bounded length, without the password of a URL. */
function quoteValue(text: string): string {
  const shown = text.replace(/\/\/[^/]*@/, "//…@");
  return JSON.stringify(shown.length > 200 ? `${shown.slice(0, 200)}…` : shown);
}

function flagsToGiven(flags: readonly GivenFlag[]): Given[] {
  const byField = new Map<OptionField, Given>();
  for (const { name, text } of flags) {
    const field = fieldOfFlag(name);
    if (field === undefined) continue;
    const earlier = byField.get(field);
    const given: Given = { field, text, source: "flag", detail: `--${name}`, place: `flag "--${name}"` };
    if (earlier !== undefined && options[field].kind.isRepeatable === true) {
      byField.set(field, { ...given, text: [earlier.text, text].filter((part) => part !== "").join(",") });
      continue;
    }
    // As in Go, the last of repeated flags wins. Two different names of one option are a contradiction.
    if (earlier !== undefined && earlier.detail !== given.detail && earlier.text !== text) {
      throw new ShimError(
        "invalid",
        `flags "${earlier.detail}" and "${given.detail}": mean the same but have different values`,
      );
    }
    byField.set(field, given);
  }
  return [...byField.values()];
}

function ignoredWarnings(flags: readonly GivenFlag[]): string[] {
  const names = new Set(flags.map(({ name }) => name));
  return ignoredFlags
    .filter(({ name }) => names.has(name))
    .map(({ name, reason }) => `flag "--${name}" is ignored: ${reason}`);
}

/** Computes the options that depend on others or on the environment. */
async function settle(
  { verbosity, ...values }: OptionValues,
  chosen: Record<OptionField, EffectiveValue>,
  environment: Environment,
  warnings: string[],
  { programName, ...files }: ContextFiles & { readonly programName: ProgramName },
): Promise<ResolvedConfig> {
  let { logLevel, imagePullProgressDeadlineMs, stateDir } = values;
  if (verbosity !== undefined && rank[chosen.verbosity.source] > rank[chosen.logLevel.source]) {
    logLevel = logLevelOfVerbosity(verbosity);
    chosen.logLevel = { ...chosen.verbosity, value: logLevel };
  }
  if ((values.streamingTlsCertFile === undefined) !== (values.streamingTlsPrivateKeyFile === undefined)) {
    throw new ShimError(
      "invalid",
      '"streaming-tls-cert-file" and "streaming-tls-private-key-file": each needs the other',
    );
  }
  for (const field of ["metricsContainers", "metricsPage"] as const) {
    if (values[field] && values.metricsBindAddress === undefined)
      throw new ShimError("invalid", `"${options[field].name}": needs "metrics-bind-address"`);
  }
  if (imagePullProgressDeadlineMs === 0) {
    const { name, default: text, kind } = options.imagePullProgressDeadlineMs;
    warnings.push(`"${name}": 0 is no time to pull in, ${text} is used`);
    imagePullProgressDeadlineMs = kind.parse(text);
    chosen.imagePullProgressDeadlineMs = { ...chosen.imagePullProgressDeadlineMs, value: text };
  }
  const own = inDockerRoot(stateDir);
  if (own !== undefined) {
    warnings.push(
      `"${options.stateDir.name}": "${stateDir}" is Docker's own directory: checkpoints are in its sandbox/, all else is in "${own}"`,
    );
    stateDir = own;
    chosen.stateDir = { ...chosen.stateDir, value: own };
  }
  const isNamed = chosen.cadvisorSocket.source !== "default";
  // By value, so that a file with the printed defaults is the same configuration.
  const isDefault = chosen.cadvisorSocket.value === options.cadvisorSocket.default;
  const cadvisorSocketRequired = isNamed && (values.readOnly || !isDefault);
  let { cadvisorSocket } = values;
  // A server beside another runtime may not be the only one: which of them tells names is to be said.
  if (values.readOnly && !isNamed) {
    cadvisorSocket = undefined;
    chosen.cadvisorSocket = { ...chosen.cadvisorSocket, value: "" };
  }
  refuseSharedSocket({ ...values, cadvisorSocket });
  const { dockerEndpoint, dockerContext, ...where } = await settleDockerEndpoint(
    values.dockerEndpoint,
    environment,
    files,
  );
  chosen.dockerEndpoint = {
    ...chosen.dockerEndpoint,
    ...where,
    value: dockerEndpointKind.format(dockerEndpoint),
  };
  const sources = Object.fromEntries(optionList.map(([field, { name }]) => [name, chosen[field]]));
  const config = {
    ...values,
    cadvisorSocket,
    cadvisorSocketRequired,
    dockerEndpoint,
    dockerContext,
    logLevel,
    imagePullProgressDeadlineMs,
    stateDir,
    programName,
  };
  return { config, sources, warnings };
}

function refuseSharedSocket(
  values: Pick<OptionValues, "containerRuntimeEndpoint" | "metricsBindAddress" | "cadvisorSocket">,
): void {
  const users = new Map<string, string>();
  for (const field of ["containerRuntimeEndpoint", "metricsBindAddress", "cadvisorSocket"] as const) {
    const endpoint = values[field];
    if (endpoint?.kind !== "unix") continue;
    const { name } = options[field];
    const other = users.get(endpoint.path);
    if (other !== undefined)
      throw new ShimError(
        "invalid",
        `"${other}" and "${name}": both are the socket ${JSON.stringify(endpoint.path)}`,
      );
    users.set(endpoint.path, name);
  }
}

/** A missing or empty endpoint means `DOCKER_HOST`, then Docker's context, as in Docker's own clients. */
async function settleDockerEndpoint(
  given: DockerEndpoint | undefined,
  environment: Environment,
  files: ContextFiles,
): Promise<
  Pick<Config, "dockerEndpoint" | "dockerContext"> & { readonly source?: Source; readonly detail?: string }
> {
  const dockerContext = undefined;
  if (given !== undefined) return { dockerEndpoint: given, dockerContext };
  const host = environment["DOCKER_HOST"] ?? "";
  if (host === "") {
    const { endpoint, detail, context } = await findEngine(environment, files);
    return { dockerEndpoint: endpoint, dockerContext: context, detail };
  }
  let dockerEndpoint: DockerEndpoint;
  try {
    dockerEndpoint = dockerEndpointKind.parse(host);
  } catch (error) {
    throw new ShimError(
      "invalid",
      `environment variable "DOCKER_HOST": ${quoteValue(host)}: ${messageOf(error)}`,
    );
  }
  return { dockerEndpoint, dockerContext, source: "environment", detail: "DOCKER_HOST" };
}
