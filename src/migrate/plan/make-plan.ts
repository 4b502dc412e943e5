/** The edits and commands that change the runtime of a node. Reads the node, writes nothing. */
import { ShimError } from "../../lib/errors.js";
import type { MigrationFacts, ServiceFacts } from "../facts/facts.js";
import { cadvisorPath, shimFlags } from "../kubelet/containerd-flag.js";
import { dependenciesBeside, isInStore, orderBeside } from "../kubelet/dependencies.js";
import { leftOut, refusedFlags, unitDifferences } from "../kubelet/shim-flags.js";
import { readKubelet } from "../kubelet/read-kubelet.js";
import {
  configuredRuntime,
  defaultSockets,
  foreignImageEndpoint,
  type KubeletRuntime,
  lastInTreeMinor,
  maskedService,
  runsThisProgram,
  socketPath,
  type Target,
  targetNames,
  unknownStart,
  usesDocker,
  wrappedRuntimes,
} from "../kubelet/target.js";
import { editCrictl } from "./edit-crictl.js";
import { editDependencies, editOrder, editServiceFlags, type NotUnderstood } from "./edit-kubelet.js";
import { setYamlValue } from "./edit-yaml.js";
import { dockershimFlags, kubeletChange } from "./kubelet-flags.js";
import { commandWord, flagsForShim, shimUnit, shimUnitPath } from "./shim-unit.js";
import { type FileEdit, reverseEdits } from "./unified-diff.js";
import { WorkingFiles } from "./working-files.js";

export type PlanTarget = Exclude<Target, "containerd" | "cri-o">;

export interface MigrationPlan {
  readonly node: string;
  readonly from: KubeletRuntime["runtime"];
  readonly to: KubeletRuntime["runtime"];
  readonly edits: readonly FileEdit[];
  /** What no diff can say, in order. The first of them applies the diff. */
  readonly commands: readonly string[];
  /** Places that stay as they are, because they were not understood. */
  readonly notUnderstood: readonly NotUnderstood[];
  readonly notes: readonly string[];
}

/** The step that `--write` does itself. */
export const applyDiff = "apply this diff: patch -p1 -d /";

/** `program`: its path on the node. Throws `precondition` where the target cannot work, or where a fact is missing that decides the edits. */
export async function makePlan(
  facts: MigrationFacts,
  { target, program }: { readonly target: PlanTarget; readonly program: string },
): Promise<MigrationPlan> {
  const { kubelet, services } = facts;
  const { service, version } = kubelet;
  refuseUnknownStart(facts);
  if (service === undefined)
    throw precondition(
      "there is no kubelet.service in the unit directories: edit the kubelet's start by hand",
    );
  if (version === undefined)
    throw precondition(
      `the version of the kubelet of ${service.unit.path} is not known: give --kubelet-version`,
    );
  for (const config of [kubelet.config, ...kubelet.dropIns, kubelet.instanceConfig])
    if (config?.problem !== undefined)
      throw precondition(`${config.path}: ${config.problem}; correct it first`);
  checkTarget(facts, target, version.minor);
  const masked = maskedService(facts, target);
  if (masked !== undefined)
    throw precondition(`${masked.path}: is masked: systemctl unmask ${masked.name} first`);
  const from = configuredRuntime(facts);
  if (from.runtime !== "unknown" && !usesDocker(from.runtime))
    throw precondition(
      `${from.source}: the kubelet's pods are in ${targetNames[from.runtime]}, and Docker has none of them: drain the node, then remove them with crictl, see "migrate check"`,
    );
  // A plan for it would leave the present runtime as it is, and drop its flags.
  if (from.runtime === "unknown" && from.endpoint !== "")
    throw precondition(
      `${from.source}: no unit here serves the endpoint "${from.endpoint}": if it is the link of record or shadow, give the kubelet its runtime's own endpoint first`,
    );
  const endpoint = endpointOf(facts, target);
  const files = new WorkingFiles(facts.root);
  const images = foreignImageEndpoint(facts);
  const change = kubeletChange(
    {
      minor: version.minor,
      flags: service.flags,
      hasConfig: kubelet.config !== undefined,
      hasForeignImages: images !== undefined,
      hasConfigEndpoint: (kubelet.settings.get("containerRuntimeEndpoint")?.value ?? "") !== "",
    },
    target,
    endpoint,
    {
      networkFlags:
        target === "dockershim-in-tree" ? networkFlags(services.dockershim ?? services.criDocker) : new Map(),
      cadvisorPath: cadvisorPath(shimFlags(services)),
    },
  );
  const isThere =
    from.runtime === target && (endpoint === "" || socketPath(from.endpoint) === socketPath(endpoint));
  const notUnderstood: NotUnderstood[] = isThere ? [] : [...service.command.problems];
  if (!isThere) notUnderstood.push(...(await editServiceFlags(files, service, change.flags)));
  if (!isThere && change.configEndpoint !== undefined)
    notUnderstood.push(...(await editConfigs(files, facts, change.configEndpoint)));
  // A node that is there already may lack it. The runtime's own flags come first.
  if (notUnderstood.length === 0)
    notUnderstood.push(...(await editServiceFlags(files, service, change.containerdFlag)));
  if (target === "dockershim" && !isThere) notUnderstood.push(...refusedFlags(facts, from.runtime));
  const notes: string[] = [];
  if (!facts.isRoot) notes.push("only root can read all of this node: run it as root.");
  if (target === "dockershim" && from.runtime === "cri-dockerd")
    notes.push(...leftOut(facts).map(({ place, text }) => `${place}: ${text}.`));
  if (images !== undefined && !isThere)
    notes.push(
      `the kubelet's images stay with ${images.value} (${images.source}): the program there has to ask ${endpoint === "" ? "the new runtime" : endpoint} from now on.`,
    );
  if (
    target === "dockershim" &&
    services.dockershim === undefined &&
    !runsThisProgram(services.criDocker?.command)
  ) {
    if ((await files.kindOf(shimUnitPath)) !== "absent")
      throw precondition(
        `${shimUnitPath}: runs another program than this one: give that unit another name first`,
      );
    const command = [commandWord(program), ...flagsForShim(facts, from.runtime)].join(" ");
    files.set(await files.resolve(shimUnitPath), shimUnit(command));
    if ((await files.kindOf(program)) === "absent")
      notes.push(
        `${program} is not there yet: install the program first, without starting its unit (docs/migrate/migrating.md).`,
      );
  }
  if (target === "dockershim" && services.dockershim !== undefined) {
    const flags = unitDifferences(facts, from.runtime).map(
      ({ name, runtime }) => [name, runtime === undefined ? undefined : commandWord(runtime)] as const,
    );
    if (!isThere) notUnderstood.push(...services.dockershim.command.problems);
    notUnderstood.push(...(await editServiceFlags(files, services.dockershim, new Map(flags))));
  }
  const replacement = target === "dockershim-in-tree" ? undefined : serviceOf(facts, target);
  notUnderstood.push(...(await editDependencies(files, dependenciesBeside(facts, target), replacement)));
  if (!isThere) notUnderstood.push(...lastingLinks(facts, from.runtime));
  notUnderstood.push(...(await editOrder(files, orderBeside(facts, target), replacement)));
  if (!isThere) await editCrictl(files, from.endpoint, endpoint);
  const edits = await files.edits();
  const stored = [service.unit.path, ...edits.map(({ path }) => path)].find(isInStore);
  if (stored !== undefined && edits.length > 0) {
    const command = /^ExecStart=(.*)$/m.exec(
      (await files.text(await files.resolve(shimUnitPath))) ?? "",
    )?.[1];
    const flags = [...change.flags, ...change.containerdFlag]
      .flatMap(([name, value]) => (value === undefined ? [] : [`--${name}=${value}`]))
      .join(" ");
    const setting =
      change.configEndpoint === undefined ? "" : ` and containerRuntimeEndpoint: ${change.configEndpoint}`;
    const unit =
      target === "dockershim" ? `give dockershim.service "ExecStart=${command ?? program}" and ` : "give ";
    const present =
      from.runtime === "cri-dockerd" || from.runtime === "dockershim" ? serviceOf(facts, from.runtime) : "";
    const rest = present === "" || from.runtime === target ? "" : `, and take ${present} out of it`;
    throw precondition(
      `${stored}: is in a read-only store: ${unit}the kubelet ${flags}${setting} in the configuration of the system${rest}`,
    );
  }
  if (notUnderstood.length === 0 && !isThere) await checkResult(files, facts, target, endpoint);
  const commands =
    isThere && edits.length === 0 ? [] : commandsFor(facts, from.runtime, target, endpoint, edits.length > 0);
  return { node: facts.node.name, from: from.runtime, to: target, edits, commands, notUnderstood, notes };
}

/** The plan that returns to the present state after `plan` was carried out. */
export function reversePlan(plan: MigrationPlan, facts: MigrationFacts): MigrationPlan {
  const { endpoint } = configuredRuntime(facts);
  const edits = reverseEdits(plan.edits);
  const commands = commandsFor(facts, plan.to, plan.from, endpoint, edits.length > 0);
  // What the plan leaves as it is needs no way back.
  return { ...plan, from: plan.to, to: plan.from, edits, commands, notUnderstood: [], notes: [] };
}

/** Which runtime the node had before this program, as far as its files say. */
export function previousTarget({ services, kubelet }: MigrationFacts): PlanTarget {
  if (services.criDocker !== undefined) return "cri-dockerd";
  if ((kubelet.version?.minor ?? Infinity) <= lastInTreeMinor) return "dockershim-in-tree";
  throw precondition("no runtime of before is found on this node: name it with --to");
}

function precondition(text: string): ShimError {
  return new ShimError("precondition", `plan the migration: ${text}`);
}

function refuseUnknownStart(facts: MigrationFacts): void {
  const start = unknownStart(facts);
  if (start?.id === "kubelet-elsewhere")
    throw precondition(`${start.text}: change its runtime by the configuration of that program`);
  if (start !== undefined)
    throw precondition(
      `${start.source}: ${start.text}: which flags it gives the kubelet is not known here, nor whether it passes on others; edit its start by hand`,
    );
  const [wrapped] = wrappedRuntimes(facts);
  if (wrapped !== undefined)
    throw precondition(
      `${wrapped.source}: ${wrapped.text}: which flags it gives the runtime is not known here; give the unit the program itself`,
    );
}

/** What starts the runtime of before at the next boot, in spite of the plan. */
function lastingLinks(
  { services }: MigrationFacts,
  from: KubeletRuntime["runtime"],
): readonly NotUnderstood[] {
  const { criDocker, criDockerSocket, dockershim } = services;
  const isTheirs = from === "cri-dockerd" || (from === "dockershim" && runsThisProgram(criDocker?.command));
  const units = isTheirs
    ? [criDocker?.unit, criDockerSocket]
    : from === "dockershim"
      ? [dockershim?.unit]
      : [];
  return units.flatMap((unit) =>
    unit?.lastingLink === undefined || unit.isMasked
      ? []
      : [{ place: unit.lastingLink, text: `starts ${unit.name} at each boot: systemctl mask ${unit.name}` }],
  );
}

function checkTarget({ services }: MigrationFacts, target: PlanTarget, minor: number): void {
  if (target === "dockershim-in-tree" && minor > lastInTreeMinor)
    throw precondition(`kubelet 1.${minor} has no dockershim inside: use --to cri-dockerd`);
  if (target === "cri-dockerd" && services.criDocker === undefined)
    throw precondition("there is no unit of cri-dockerd here: install cri-dockerd first");
}

function endpointOf(facts: MigrationFacts, target: PlanTarget): string {
  const { services } = facts;
  if (target === "dockershim-in-tree") return "";
  const isTheirs = target === "cri-dockerd" || runsThisProgram(services.criDocker?.command);
  const service = isTheirs ? services.criDocker : services.dockershim;
  const server = services.servers.find((one) => one.service === service);
  const fallback = defaultSockets[target === "cri-dockerd" ? target : "dockershim"];
  return (server?.endpoint ?? fallback).replace(/^\//, "unix:///");
}

function serviceOf({ services }: MigrationFacts, runtime: KubeletRuntime["runtime"]): string {
  const { criDocker, dockershim } = services;
  const isTheirs = runtime === "cri-dockerd" || runsThisProgram(criDocker?.command);
  return (isTheirs ? criDocker : dockershim)?.unit.name ?? "dockershim.service";
}

function networkFlags(service: ServiceFacts | undefined): ReadonlyMap<string, string> {
  const flags = new Map<string, string>();
  for (const { name, value } of service?.flags ?? [])
    if (dockershimFlags.includes(name) && /^(network|cni)-/.test(name) && value !== "no-op")
      flags.set(name, value);
  return flags;
}

/** Each setting in the file whose value counts. */
async function editConfigs(
  files: WorkingFiles,
  facts: MigrationFacts,
  endpoint: string,
): Promise<readonly NotUnderstood[]> {
  const { config, settings, instanceConfig } = facts.kubelet;
  const hasForeignImages = foreignImageEndpoint(facts) !== undefined;
  const places: (readonly [path: string, key: string])[] = [];
  const endpointPath = settings.get("containerRuntimeEndpoint")?.path ?? config?.path;
  if (endpointPath !== undefined) places.push([endpointPath, "containerRuntimeEndpoint"]);
  const imagePath = settings.get("imageServiceEndpoint")?.path;
  if (imagePath !== undefined && !hasForeignImages) places.push([imagePath, "imageServiceEndpoint"]);
  // kubeadm's file for the node, which it writes over config.yaml.
  if (instanceConfig?.values.has("containerRuntimeEndpoint") === true)
    for (const key of ["containerRuntimeEndpoint", ...(hasForeignImages ? [] : ["imageServiceEndpoint"])])
      if (instanceConfig.values.has(key)) places.push([instanceConfig.path, key]);
  const problems = new Map<string, NotUnderstood>();
  for (const [path, key] of places) {
    const text = await setYamlValue((await files.text(path)) ?? "", key, endpoint);
    if (text === undefined) problems.set(path, { place: path, text: "is not one plain mapping of YAML" });
    else files.set(path, text);
  }
  return [...problems.values()];
}

/** Reads the planned files as systemd and the kubelet would, and refuses a plan that does not lead there. */
async function checkResult(
  files: WorkingFiles,
  facts: MigrationFacts,
  target: PlanTarget,
  endpoint: string,
): Promise<void> {
  const version = facts.kubelet.version?.text;
  const planned = await readKubelet(files, version, () => Promise.resolve(undefined));
  const reached = configuredRuntime({ ...facts, kubelet: planned });
  const isReached =
    endpoint === "" ? reached.runtime === target : socketPath(reached.endpoint) === socketPath(endpoint);
  if (isReached) return;
  throw precondition(
    `${reached.source} names another endpoint than the edits set: ${reached.endpoint}; edit the kubelet's files by hand`,
  );
}

function commandsFor(
  facts: MigrationFacts,
  from: KubeletRuntime["runtime"],
  to: KubeletRuntime["runtime"],
  endpoint: string,
  hasEdits: boolean,
): readonly string[] {
  const sameUnit = runsThisProgram(facts.services.criDocker?.command);
  const { criDocker, criDockerSocket } = facts.services;
  const theirs = [criDocker?.unit.name, criDockerSocket?.name].filter(Boolean).join(" ");
  const isServed = (runtime: KubeletRuntime["runtime"]): boolean =>
    runtime === "cri-dockerd" || runtime === "dockershim";
  const unitsOf = (runtime: KubeletRuntime["runtime"]): string =>
    runtime === "cri-dockerd" || sameUnit ? theirs : serviceOf(facts, runtime);
  const socket = to === "dockershim-in-tree" ? "/var/run/dockershim.sock" : endpoint;
  return [
    "systemctl stop kubelet.service",
    ...(hasEdits ? [applyDiff] : []),
    ...(from !== to && isServed(from) ? [`systemctl disable --now ${unitsOf(from)}`] : []),
    "systemctl daemon-reload",
    ...(isServed(to) ? [`systemctl enable --now ${unitsOf(to)}`] : []),
    "systemctl start kubelet.service",
    ...(facts.kubelet.isKubeadm
      ? [
          `kubectl annotate node ${facts.node.name} kubeadm.alpha.kubernetes.io/cri-socket=${socket} --overwrite`,
        ]
      : []),
    ...(to === "unknown" ? [] : [`dockershim migrate check --to ${to}`]),
  ];
}
