/** The settings that the server has: those of its unit, and over them the flags of this command. */
import { messageOf } from "../../lib/errors.js";
import type { MigrationFacts } from "../../migrate/facts/facts.js";
import { shimFlags } from "../../migrate/kubelet/containerd-flag.js";
import { runsThisProgram } from "../../migrate/kubelet/target.js";
import { dockerEndpointKind } from "../../shim/config/endpoints.js";
import { fieldOfFlag } from "../../shim/config/given.js";
import type { ProgramName } from "../../shim/config/option.js";
import { type GivenFlag, type ResolvedConfig, resolveConfig } from "../../shim/config/resolve.js";
import type { ProcessIo } from "../../cli/process-io.js";
import type { Settings } from "../facts.js";

export interface GivenSettings {
  readonly flags: readonly GivenFlag[];
  readonly programName: ProgramName;
}

export interface ReadSettings {
  readonly resolved: ResolvedConfig;
  readonly settings: Settings;
}

/** Throws only when not even the defaults are valid here. */
export async function readSettings(
  { flags, programName }: GivenSettings,
  migration: MigrationFacts | undefined,
  { environment, readFile, isSocket }: Pick<ProcessIo, "environment" | "readFile" | "isSocket">,
): Promise<ReadSettings> {
  const ofUnit = migration === undefined ? [] : unitFlags(migration);
  const given = new Set(flags.map(keyOf));
  const all = [...ofUnit.filter((flag) => !given.has(keyOf(flag))), ...flags];
  const unit = migration === undefined ? undefined : unitOf(migration);
  const source = ofUnit.length === 0 || unit === undefined ? "this command" : unit;
  const read = (path: string): Promise<string> => readFile(path);
  try {
    const resolved = await resolveConfig(all, environment, read, isSocket, programName);
    return { resolved, settings: settingsOf(resolved, source, undefined) };
  } catch (error) {
    const resolved = await resolveConfig([], {}, read, isSocket, programName);
    return { resolved, settings: settingsOf(resolved, source, messageOf(error)) };
  }
}

/** A drop-in may run this program in the unit of cri-dockerd. */
function unitOf({ services: { criDocker, dockershim } }: MigrationFacts): string | undefined {
  return (runsThisProgram(criDocker?.command) ? criDocker : dockershim)?.unit.name;
}

/** The settings of its file and its variables are among them. The file is read again, because it may be refused. */
function unitFlags({ services }: MigrationFacts): readonly GivenFlag[] {
  return shimFlags(services)
    .filter((flag) => keyOf(flag) !== undefined)
    .map(({ name, value }) => ({ name, text: value }));
}

/** One for all names of an option; undefined for a flag of another program. */
function keyOf({ name }: { readonly name: string }): string | undefined {
  return name === "config" ? name : fieldOfFlag(name);
}

function settingsOf({ config }: ResolvedConfig, source: string, problem: string | undefined): Settings {
  const { containerRuntimeEndpoint: endpoint, stateDir, networkPlugin, cniConfDir, cniBinDirs } = config;
  return {
    source,
    problem,
    engineEndpoint: String(dockerEndpointKind.format(config.dockerEndpoint)),
    socket: endpoint.kind === "unix" ? endpoint.path : "",
    stateDir,
    cgroupDriver: config.cgroupDriver,
    networkPlugin,
    cniConfDir,
    cniBinDirs,
    pauseImage: config.pauseImage,
    builtinPauseImage: config.builtinPauseImage,
    defaultUlimits: config.defaultUlimits,
  };
}
