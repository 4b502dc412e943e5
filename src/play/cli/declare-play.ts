/** `dockershim play` as commander sees it. */
import { Option } from "commander";
import { ShimError } from "../../lib/errors.js";
import { dockerEndpointKind } from "../../shim/config/endpoints.js";
import { durationKind } from "../../shim/config/value-kinds.js";
import { playOutputs } from "../view/play-outputs.js";
import type { CommandParts } from "../../cli/command-parts.js";
import { parseFlag } from "../../cli/flag-values.js";
import type { PlayOptions } from "./play-context.js";
import { playEndpointHelp, resolvePlayEndpoint } from "./play-endpoint.js";

/** The options that are flags of the same name, as commander reads them. */
type PlayFlags = Partial<Omit<PlayOptions, "files" | "waitMs" | "directories">> & { readonly wait?: string };

export function addPlayCommand({ addCommand, refuseServeFlags, run, io }: CommandParts): void {
  const play = addCommand("play", "run Kubernetes Pod manifests through the CRI");
  play
    .usage("[flags] file...")
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
    .option("--wait [time]", "return when all pods are ready and all jobs complete, or after that time (5m)")
    .option("--keep", "keep what was made when a pod fails")
    .option("-R, --recursive", "also read the directories below the given ones")
    .option(
      "--replicas <count>",
      "number of pods of each workload, or NAME=NUMBER for one; may be repeated",
      (count: string, before: readonly string[] | undefined) => [...(before ?? []), count],
    )
    .option("--schedule", "run CronJobs by their schedule instead of once")
    .option("--strict", "refuse what is otherwise passed over")
    .option("--local-volumes", "put empty local volumes in place of those of storage systems")
    .option("--endpoint <endpoint>", playEndpointHelp)
    .option("--docker-endpoint <endpoint>", "the engine of a server on another host (default: as the server)")
    .action(async (given: PlayFlags) => {
      refuseServeFlags("play");
      const { args: files } = play;
      checkPlayFlags(given, files);
      const { path: endpoint } = resolvePlayEndpoint(given.endpoint, io.environment);
      const { dockerEndpoint, wait } = given;
      if (dockerEndpoint !== undefined) parseFlag("--docker-endpoint", dockerEndpoint, dockerEndpointKind);
      await run(() => import("./play-command.js"), "runPlay", {
        files,
        follow: given.follow === true,
        down: given.down === true,
        keep: given.keep === true,
        // `--wait` alone has an empty value.
        waitMs: wait === undefined ? undefined : parseFlag("--wait", wait || "5m", durationKind()),
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
        endpoint,
        dockerEndpoint,
      });
    });
}

function checkPlayFlags(given: PlayFlags, files: readonly string[]): void {
  const exclusive = (["down", "detach", "watch", "supervise"] as const).filter(
    (name) => given[name] === true,
  );
  const [first, second] = [
    ...exclusive,
    ...(given.wait !== undefined && given.detach !== true ? ["wait"] : []),
  ];
  const refuse = (reason: string): never => {
    throw new ShimError("invalid", `command "play": ${reason}`);
  };
  if (second !== undefined) refuse(`--${first ?? ""} and --${second} exclude each other`);
  if (given.detach === true && given.follow === true) refuse("--detach and --follow exclude each other");
  if (given.supervise === true ? files.length > 0 : files.length === 0)
    refuse(given.supervise === true ? "--supervise takes no files" : "needs at least one file");
}
