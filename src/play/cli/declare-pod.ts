/** `dockershim pod` as commander sees it. The flags are kubectl's. */
import { type Command, Option } from "commander";
import { ShimError } from "../../lib/errors.js";
import { durationKind } from "../../shim/config/value-kinds.js";
import { parseFileSpec } from "../pod-commands/copy-files.js";
import { parsePortPair } from "../pod-commands/forward-ports.js";
import { parsePodName } from "../pod-commands/pod-names.js";
import { psOutputs } from "../pod-commands/pod-summary.js";
import type { CommandParts } from "../../cli/command-parts.js";
import { noSubject, parseFlag } from "../../cli/flag-values.js";
import { podVerbHint } from "../../cli/hints.js";
import { parseGrace, parseNamespace, playOptions, repeated } from "./declare-play.js";
import { playEndpointHelp, resolvePlayEndpoint } from "./play-endpoint.js";
import type { PodRequest } from "./pod-context.js";
import {
  type Given,
  count,
  filesOf,
  isCopy,
  named,
  ofNamespace,
  parseAddresses,
  parseTime,
  parseWaitFor,
  selectionOf,
} from "./pod-arguments.js";

const verbs = "ps|logs|exec|attach|port-forward|cp|describe|events|top|wait|down";

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
    request: (given: Given, args: readonly string[]) => PodRequest,
  ): Command => {
    const command = addCommand(name, summary, { parent: pod });
    return command
      .usage(usage)
      .allowExcessArguments()
      .option("-n, --namespace <namespace>", namespaceHelp(usage))
      .option("--endpoint <endpoint>", playEndpointHelp)
      .action(async (given: Given) => {
        refuseServeFlags(`pod ${name}`);
        const { path: endpoint } = resolvePlayEndpoint(given.endpoint, io.environment);
        parseNamespace(given.namespace);
        if (given.filename === undefined) {
          const asked = request(given, command.args);
          await run(() => import("./pod-command.js"), "runPod", { request: asked, endpoint });
          return;
        }
        const { namespace, gracePeriod } = given;
        const flags = { down: true, namespace, gracePeriod };
        const options = playOptions(flags, filesOf(given, command.args), endpoint);
        await run(() => import("./play-command.js"), "runPlay", options);
      });
  };
  /** As `add`, for pods by name or by labels, or all of a namespace. */
  const addForSome = (
    name: string,
    summary: string,
    usage: string,
    request: (given: Given, args: readonly string[]) => PodRequest,
  ): Command =>
    add(name, summary, usage, request)
      .option("-l, --selector <labels>", "those with the labels, as app=web,tier!=db")
      .option("-A, --all-namespaces", "of all namespaces");

  addForSome("ps", "list pods", "[flags] [pod...]", (given, args) => {
    const { output = given.quiet === true ? "name" : "table", headers = true, watch = false } = given;
    if (watch && (output === "json" || output === "yaml"))
      throw new ShimError("invalid", "--watch prints a table, or names");
    return { verb: "ps", selection: selectionOf({ ...given, all: false }, args), output, headers, watch };
  })
    .addOption(new Option("-o, --output <format>", "how the list is printed").choices(psOutputs))
    .option("-q, --quiet", "only the names: -o name")
    .option("-w, --watch", "go on with a line for each change")
    .option("-a, --all", "also those that have ended (the default)")
    .option("--no-headers", "without the names of the columns");

  addForSome("logs", "print the logs of a container", "[flags] pod [container]", (given, args) => {
    const [name, container] = args;
    if (args.length > 2) throw new ShimError("invalid", 'command "pod logs": takes a pod and a container');
    const {
      selector,
      tail,
      since,
      sinceTime,
      limitBytes,
      allContainers: all = false,
      allPods = false,
    } = given;
    if (name === undefined && selector === undefined) named([], given, "logs");
    if (since !== undefined && sinceTime !== undefined)
      throw new ShimError("invalid", "--since and --since-time exclude each other");
    if ([container, given.container, all || undefined].filter((one) => one !== undefined).length > 1)
      throw new ShimError("invalid", 'command "pod logs": takes one container, or --all-containers');
    return {
      verb: "logs",
      selection: ofNamespace(selectionOf(given, name === undefined ? [] : [name]), given),
      isOne: name !== undefined && !allPods,
      container: given.container ?? container,
      all,
      previous: given.previous === true,
      follow: given.follow === true,
      // As kubectl, which prints ten lines of each of several pods.
      tail:
        tail === undefined
          ? name === undefined
            ? 10
            : undefined
          : tail === "-1"
            ? undefined
            : count("--tail", tail, "lines"),
      sinceMs: since === undefined ? undefined : parseFlag("--since", since, durationKind()),
      sinceTime: sinceTime === undefined ? undefined : parseTime("--since-time", sinceTime),
      limitBytes: limitBytes === undefined ? undefined : count("--limit-bytes", limitBytes, "bytes"),
      timestamps: given.timestamps === true,
      prefix: given.prefix === true || allPods,
      ignoreErrors: given.ignoreErrors === true,
    };
  })
    .option("-c, --container <name>", containerHelp)
    .option("--all-containers", "of all containers")
    .option("--all-pods", "of all pods of a workload, with --prefix")
    .option("-f, --follow", "go on until the container has ended")
    .option("-p, --previous", "of the container before the last restart")
    .option("--tail <lines>", "only the last lines; -1: all (default: all, of pods by --selector 10)")
    .option("--since <duration>", "only what is not older, as 10m")
    .option("--since-time <time>", "only what is not older, as 2026-01-31T10:00:00Z")
    .option("--limit-bytes <bytes>", "at most so much of each container")
    .option("--timestamps", "with the time of each line")
    .option("--prefix", "with pod and container before each line")
    .option("--ignore-errors", "go on with the other logs when one cannot be read");

  add("exec", "run a command in a container", "[flags] pod -- command [argument...]", (given, args) => {
    const [name = "", ...command] = args;
    if (command.length === 0)
      throw new ShimError("invalid", 'command "pod exec": needs a pod and, after "--", a command');
    const { container, stdin = false, tty = false } = given;
    return { verb: "exec", pod: named([name], given, "exec"), container, command, stdin, tty };
  })
    .option("-c, --container <name>", containerHelp)
    .option("-i, --stdin", "pass standard input")
    .option("-t, --tty", "with a terminal");

  add("attach", "attach to the process of a container", "[flags] pod", (given, args) => {
    const { container, stdin = false, tty = false } = given;
    return { verb: "attach", pod: named(args, given, "attach"), container, stdin, tty };
  })
    .option("-c, --container <name>", containerHelp)
    .option("-i, --stdin", "pass standard input")
    .option("-t, --tty", "standard input is a terminal");

  add("port-forward", "forward local ports to a pod", "[flags] pod [local:]remote...", (given, args) => {
    const [name = "", ...ports] = args;
    if (ports.length === 0)
      throw new ShimError("invalid", 'command "pod port-forward": needs a pod and a port');
    return {
      verb: "port-forward",
      pod: named([name], given, "port-forward"),
      pairs: ports.map(parsePortPair),
      addresses: parseAddresses(given.address ?? "localhost"),
    };
  }).option("--address <addresses>", "where to listen (default: localhost)");

  add(
    "cp",
    "copy files from and to a container",
    "[flags] source target (one is pod:path; the other may be -, a tar archive)",
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
  ).option("-c, --container <name>", containerHelp);

  addForSome("describe", "show all about pods", "[flags] [pod...]", (given, args) => ({
    verb: "describe",
    selection: selectionOf(given, args),
  }));

  addForSome("events", "what happened to containers", "[flags] [pod...]", (given, args) => ({
    verb: "events",
    selection: selectionOf(given, args),
    follow: given.follow === true || given.watch === true,
  }))
    .option("-f, --follow", "go on with events as they happen")
    .option("-w, --watch", "the same");

  addForSome("top", "CPU and memory of pods", "[flags] [pod...]", (given, args) => ({
    verb: "top",
    selection: selectionOf(given, args),
    containers: given.containers === true,
    sortBy: given.sortBy,
  }))
    .option("--containers", "of each container")
    .addOption(new Option("--sort-by <usage>", "the largest first").choices(["cpu", "memory"]));

  addForSome("wait", "wait for what becomes of pods", "[flags] pod...", (given, args) => {
    const { selector, all = false, timeout = "30s" } = given;
    if (args.length === 0 && selector === undefined && !all) named(args, given, "wait");
    return {
      verb: "wait",
      selection: ofNamespace(selectionOf(given, args), given),
      for: parseWaitFor(given.for ?? "condition=Ready"),
      timeoutMs: parseFlag("--timeout", timeout, durationKind()),
    };
  })
    .option("--for <state>", "condition=Ready (the default), delete, or jsonpath={.status.phase}=PHASE")
    .option("--timeout <duration>", "for how long (default: 30s)")
    .option("--all", "for all of the namespace");

  addForSome("down", "stop and remove pods that play made", "[flags] pod...", (given, args) => {
    const { selector, all = false, gracePeriod, namespace, allNamespaces } = given;
    if (args.length === 0 && selector === undefined && !all)
      throw new ShimError("invalid", 'command "pod down": needs the name of a pod, --selector or --all');
    if (namespace !== undefined && allNamespaces === true)
      throw new ShimError("invalid", 'command "pod down": --namespace and -A exclude each other');
    const selection = ofNamespace(selectionOf(given, args), given);
    if (selection.pods.some(({ kind }) => kind === "Service"))
      throw new ShimError(
        "invalid",
        'command "pod down": a Service owns no pods: name their workload, or use --selector',
      );
    return { verb: "down", selection, graceSeconds: parseGrace(gracePeriod) };
  })
    .option("--all", "all of the namespace")
    .option("-f, --filename <file>", "those of the file, as play --down; may be repeated", repeated)
    .option("--grace-period <seconds>", "in place of the pods' own grace periods");
}

const containerHelp = "the container (default: the first)";

/** Commands that need no pod are for those of all namespaces. */
function namespaceHelp(usage: string): string {
  const other = usage.includes("[pod") ? "; without a pod: all" : "";
  return `namespace of the pod (default: "default"${other})`;
}
