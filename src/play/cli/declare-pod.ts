/** `dockershim pod` as commander sees it. The flags are kubectl's. */
import { type Command, Option } from "commander";
import { ShimError } from "../../lib/errors.js";
import { durationKind } from "../../shim/config/value-kinds.js";
import { type FileSpec, parseFileSpec } from "../pod-commands/copy-files.js";
import { parsePodName, type PodName } from "../pod-commands/find-pod.js";
import { parsePortPair } from "../pod-commands/forward-ports.js";
import { psOutputs, type PsOutput } from "../pod-commands/pod-summary.js";
import type { CommandParts } from "../../cli/command-parts.js";
import { noSubject, parseFlag, wrongFlag } from "../../cli/flag-values.js";
import { podVerbHint } from "../../cli/hints.js";
import { refuseArguments } from "../../cli/flags.js";
import { playEndpointHelp, resolvePlayEndpoint } from "./play-endpoint.js";
import type { PodRequest } from "./pod-context.js";

interface Given {
  readonly namespace?: string;
  readonly allNamespaces?: boolean;
  readonly endpoint?: string;
  readonly container?: string;
  readonly output?: PsOutput;
  readonly follow?: boolean;
  readonly previous?: boolean;
  readonly tail?: string;
  readonly since?: string;
  readonly timestamps?: boolean;
  readonly prefix?: boolean;
  readonly allContainers?: boolean;
  readonly stdin?: boolean;
  readonly tty?: boolean;
  readonly address?: string;
  readonly containers?: boolean;
}

const verbs = "ps|logs|exec|attach|port-forward|cp|describe|events|top|down";

export function addPodCommands({ addCommand, refuseServeFlags, run, io }: CommandParts): void {
  const pod = addCommand("pod", "look at the pods of a CRI server, and into them");
  pod.usage(`${verbs} [flags]`).helpCommand(false).enablePositionalOptions();
  pod.allowExcessArguments().action(() => {
    const [given] = pod.args;
    throw noSubject("pod", given, verbs, given && podVerbHint(given, verbs.split("|")));
  });
  const add = (
    name: string,
    summary: string,
    usage: string,
    request: (given: Given, args: readonly string[], command: Command) => PodRequest,
  ): Command => {
    const command = addCommand(name, summary, { parent: pod });
    return command
      .usage(usage)
      .allowExcessArguments()
      .option("-n, --namespace <namespace>", namespaceHelp(usage))
      .option("--endpoint <endpoint>", playEndpointHelp)
      .action(async (given: Given) => {
        refuseServeFlags(`pod ${name}`);
        const asked = request(given, command.args, command);
        const { path: endpoint } = resolvePlayEndpoint(given.endpoint, io.environment);
        await run(() => import("./pod-command.js"), "runPod", { request: asked, endpoint });
      });
  };
  const named = (args: readonly string[], { namespace }: Given, verb: string): PodName => {
    const [name, ...rest] = args;
    if (name === undefined || rest.length > 0)
      throw new ShimError("invalid", `command "pod ${verb}": needs the name of one pod`);
    return parsePodName(name, namespace);
  };

  add("ps", "list pods", "[flags]", ({ namespace, output = "table" }, _args, command) => {
    refuseArguments(command);
    return { verb: "ps", namespace, output };
  })
    .addOption(new Option("-o, --output <format>", "how the list is printed").choices(psOutputs))
    .option("-A, --all-namespaces", "of all namespaces (the default)");

  add("logs", "print the logs of a container", "[flags] pod [container]", (given, args) => {
    const [name = "", container] = args;
    if (args.length > 2) throw new ShimError("invalid", 'command "pod logs": takes a pod and a container');
    const { tail, since, allContainers: all = false } = given;
    return {
      verb: "logs",
      pod: named([name], given, "logs"),
      container: given.container ?? container,
      all,
      previous: given.previous === true,
      follow: given.follow === true,
      tail: tail === undefined || tail === "-1" ? undefined : count("--tail", tail),
      sinceMs: since === undefined ? undefined : parseFlag("--since", since, durationKind()),
      timestamps: given.timestamps === true,
      prefix: given.prefix === true,
    };
  })
    .option("-c, --container <name>", "the container (default: the first)")
    .option("--all-containers", "of all containers")
    .option("-f, --follow", "go on until the container has ended")
    .option("-p, --previous", "of the container before the last restart")
    .option("--tail <lines>", "only the last lines; -1: all")
    .option("--since <duration>", "only what is not older, as 10m")
    .option("--timestamps", "with the time of each line")
    .option("--prefix", "with pod and container before each line");

  add("exec", "run a command in a container", "[flags] pod -- command [argument...]", (given, args) => {
    const [name = "", ...command] = args;
    if (command.length === 0)
      throw new ShimError("invalid", 'command "pod exec": needs a pod and, after "--", a command');
    const { container, stdin = false, tty = false } = given;
    return { verb: "exec", pod: named([name], given, "exec"), container, command, stdin, tty };
  })
    .option("-c, --container <name>", "the container (default: the first)")
    .option("-i, --stdin", "pass standard input")
    .option("-t, --tty", "with a terminal");

  add("attach", "attach to the process of a container", "[flags] pod", (given, args) => {
    const { container, stdin = false, tty = false } = given;
    return { verb: "attach", pod: named(args, given, "attach"), container, stdin, tty };
  })
    .option("-c, --container <name>", "the container (default: the first)")
    .option("-i, --stdin", "pass standard input")
    .option("-t, --tty", "standard input is a terminal");

  add("port-forward", "forward local ports to a pod", "[flags] pod [local:]remote...", (given, args) => {
    const [name = "", ...ports] = args;
    if (ports.length === 0)
      throw new ShimError("invalid", 'command "pod port-forward": needs a pod and a port');
    const addresses = (given.address ?? "localhost").split(",");
    return {
      verb: "port-forward",
      pod: named([name], given, "port-forward"),
      pairs: ports.map(parsePortPair),
      addresses: [...new Set(addresses.map((each) => (each === "localhost" ? "127.0.0.1" : each)))],
    };
  }).option("--address <addresses>", "where to listen (default: localhost)");

  add(
    "cp",
    "copy files from and to a container",
    "[flags] source target (one is pod:path)",
    (given, args) => {
      const [source, target] = args.map(parseFileSpec);
      if (args.length !== 2 || source === undefined || target === undefined || !isCopy(source, target))
        throw new ShimError(
          "invalid",
          'command "pod cp": needs a source and a target, and one of them as POD:PATH',
        );
      const [inPod, local] = source.pod === undefined ? [target, source] : [source, target];
      return {
        verb: "cp",
        pod: parsePodName(inPod.pod ?? "", given.namespace),
        container: given.container,
        direction: source.pod === undefined ? "to" : "from",
        local: local.path,
        remote: inPod.path,
      };
    },
  ).option("-c, --container <name>", "the container (default: the first)");

  add("describe", "show all about a pod", "[flags] pod", (given, args) => ({
    verb: "describe",
    pod: named(args, given, "describe"),
  }));

  add("events", "what happened to containers", "[flags] [pod]", (given, args) => ({
    verb: "events",
    pod: args.length === 0 ? undefined : named(args, given, "events"),
    namespace: given.namespace,
    follow: given.follow === true,
  })).option("-f, --follow", "go on with events as they happen");

  add("top", "CPU and memory of pods", "[flags] [pod]", (given, args) => ({
    verb: "top",
    pod: args.length === 0 ? undefined : named(args, given, "top"),
    namespace: given.namespace,
    containers: given.containers === true,
  })).option("--containers", "of each container");

  add("down", "stop and remove pods that play made", "[flags] pod...", (given, args) => {
    if (args.length === 0) throw new ShimError("invalid", 'command "pod down": needs the name of a pod');
    return { verb: "down", pods: args.map((name) => parsePodName(name, given.namespace)) };
  });
}

/** Commands that need no pod are for those of all namespaces. */
function namespaceHelp(usage: string): string {
  if (usage === "[flags]") return "only pods of this namespace";
  const other = usage.endsWith("[pod]") ? "; without a pod: all" : "";
  return `namespace of the pod (default: "default"${other})`;
}

function isCopy(source: FileSpec, target: FileSpec): boolean {
  return (source.pod === undefined) !== (target.pod === undefined);
}

function count(flag: string, text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw wrongFlag(flag, text, "must be a number of lines, or -1");
}
