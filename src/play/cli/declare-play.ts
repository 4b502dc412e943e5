/** `dockershim play` as commander sees it. */
import { type Command, Option } from "commander";
import { ShimError } from "../../lib/errors.js";
import { dockerEndpointKind } from "../../shim/config/endpoints.js";
import { durationKind, enumKind } from "../../shim/config/value-kinds.js";
import { playOutputs } from "../view/play-outputs.js";
import { refuseArguments } from "../../cli/flags.js";
import type { CommandParts } from "../../cli/command-parts.js";
import { parseFlag, wrongFlag } from "../../cli/flag-values.js";
import { dnsLabel } from "../manifests/names.js";
import { dryRuns, type PlayOptions } from "./play-context.js";
import { playEndpointHelp, resolvePlayEndpoint } from "./play-endpoint.js";

/** The options that are flags of the same name, as commander reads them. */
type PlayFlags = Partial<
  Omit<PlayOptions, "files" | "waitMs" | "directories" | "dryRun" | "graceSeconds">
> & {
  readonly filename?: readonly string[];
  readonly wait?: string;
  readonly dryRun?: string;
  readonly gracePeriod?: string | undefined;
};

/** For flags that may be repeated. */
export const repeated = (text: string, before: readonly string[] | undefined): readonly string[] => [
  ...(before ?? []),
  text,
];

export function addPlayCommand({ addCommand, refuseServeFlags, run, io }: CommandParts): void {
  const play = addCommand("play", "run Kubernetes Pod manifests through the CRI");
  play
    .usage("[flags] file...")
    .enablePositionalOptions()
    .option("-f, --filename <file>", "a file, as an argument; may be repeated", repeated)
    .option("-n, --namespace <namespace>", "of the objects that name none (default: default)")
    .option(
      "--dry-run [how]",
      "only check: the files (client, the default), or also server and node (server)",
    )
    .option("-d, --detach", "return, and leave the pods to the supervisor of the socket")
    .option("--watch", "apply the files again when they change")
    .option("--supervise", "be the supervisor: keep the pods of all plays that were detached")
    .option("--follow", "follow the logs of the containers")
    .option("--fast", "restart failed containers after a tenth of the kubelet's times")
    .addOption(
      new Option("-o, --output <format>", "how to print the pods").choices(playOutputs).default("table"),
    )
    .option("--timeline <file>", "write an SVG of all steps at the end")
    .option("--down", "remove the pods of the files instead")
    .option("--grace-period <seconds>", "with --down: in place of the pods' own grace periods")
    .option("--wait [time]", "return when all pods are ready and all jobs complete, or after that time (5m)")
    .option("--keep", "keep what was made when a pod fails")
    .option("-R, --recursive", "also read the directories below the given ones")
    .option(
      "--replicas <count>",
      "number of pods of each workload, or NAME=NUMBER for one; may be repeated",
      repeated,
    )
    .option("--schedule", "run CronJobs by their schedule instead of once")
    .option("--strict", "refuse what is otherwise passed over")
    .option("--local-volumes", "put empty local volumes in place of those of storage systems")
    .option("--endpoint <endpoint>", playEndpointHelp)
    .option("--docker-endpoint <endpoint>", "the engine of a server on another host (default: as the server)")
    .action(async (given: PlayFlags) => {
      refuseServeFlags("play");
      const files = [...(given.filename ?? []), ...play.args];
      checkPlayFlags(given, files);
      const { path: endpoint } = resolvePlayEndpoint(given.endpoint, io.environment);
      await run(() => import("./play-command.js"), "runPlay", playOptions(given, files, endpoint));
    });

  const list = addCommand("ls", "list plays and their pods, with what keeps each", { parent: play });
  list
    .addOption(new Option("-o, --output <format>", "how the list is printed").choices(["table", "json"]))
    .option("--endpoint <endpoint>", playEndpointHelp)
    .action(async (given: { readonly output?: "table" | "json"; readonly endpoint?: string }) => {
      refuseServeFlags("play ls");
      refuseArguments(list);
      const { endpoint: before } = onlyEndpointOf(play);
      const { path: endpoint } = resolvePlayEndpoint(given.endpoint ?? before, io.environment);
      const options = { endpoint, output: given.output ?? "table" } as const;
      await run(() => import("./play-list.js"), "runPlayList", options);
    });
}

/** The flags that stand before a command below `play`. Throws `invalid` for all others. */
function onlyEndpointOf(play: Command): Pick<PlayFlags, "endpoint"> {
  for (const option of play.options) {
    const source = play.getOptionValueSource(option.attributeName());
    if (source !== "cli" || option.long === "--endpoint") continue;
    throw new ShimError("invalid", `flag "${option.long}": has no meaning for the command "play ls"`);
  }
  return play.opts<PlayFlags>();
}

/** Throws `invalid`. */
export function playOptions(given: PlayFlags, files: readonly string[], endpoint: string): PlayOptions {
  const { dockerEndpoint, wait, dryRun } = given;
  if (dockerEndpoint !== undefined) parseFlag("--docker-endpoint", dockerEndpoint, dockerEndpointKind);
  return {
    files,
    follow: given.follow === true,
    down: given.down === true,
    keep: given.keep === true,
    // `--wait` and `--dry-run` alone have an empty value.
    waitMs: wait === undefined ? undefined : parseFlag("--wait", wait || "5m", durationKind()),
    dryRun: dryRun === undefined ? undefined : parseFlag("--dry-run", dryRun || "client", enumKind(dryRuns)),
    fast: given.fast === true,
    output: given.output ?? "table",
    timeline: given.timeline,
    recursive: given.recursive === true,
    replicas: given.replicas ?? [],
    schedule: given.schedule === true,
    strict: given.strict === true,
    localVolumes: given.localVolumes === true,
    detach: given.detach === true,
    watch: given.watch === true,
    supervise: given.supervise === true,
    namespace: parseNamespace(given.namespace),
    graceSeconds: parseGrace(given.gracePeriod),
    endpoint,
    dockerEndpoint,
  };
}

/** Throws `invalid`. */
export function parseNamespace(text: string | undefined): string | undefined {
  const reason = text === undefined ? undefined : dnsLabel(text);
  if (reason !== undefined) throw wrongFlag("--namespace", text, reason);
  return text;
}

/** Throws `invalid`. */
export function parseGrace(text: string | undefined): number | undefined {
  if (text === undefined || /^\d{1,9}$/.test(text)) return text === undefined ? undefined : Number(text);
  throw wrongFlag("--grace-period", text, "must be a number of seconds");
}

function checkPlayFlags(given: PlayFlags, files: readonly string[]): void {
  const exclusive = (["down", "detach", "watch", "supervise"] as const).filter(
    (name) => given[name] === true,
  );
  const [first, second] = [
    ...exclusive,
    ...(given.dryRun === undefined ? [] : ["dry-run"]),
    ...(given.wait !== undefined && given.detach !== true ? ["wait"] : []),
  ];
  const refuse = (reason: string): never => {
    throw new ShimError("invalid", `command "play": ${reason}`);
  };
  if (second !== undefined) refuse(`--${first ?? ""} and --${second} exclude each other`);
  if (given.detach === true && given.follow === true) refuse("--detach and --follow exclude each other");
  if (given.gracePeriod !== undefined && given.down !== true) refuse("--grace-period is for --down");
  if (given.supervise === true ? files.length > 0 : files.length === 0)
    refuse(given.supervise === true ? "--supervise takes no files" : "needs at least one file");
}
