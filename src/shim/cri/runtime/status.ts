import type { Call } from "../../../lib/call.js";
import { ShimError } from "../../../lib/errors.js";
import type { Answer, RuntimeHandler } from "../../../domain/cri.js";
import type { NodeFacts } from "../../../domain/node-facts.js";
import { reachProblem, tries } from "../../../domain/reach.js";
import { recursiveReadOnlyMounts } from "../../plan/recursive-read-only.js";
import { dockerRuntime, runtimeHandlers, whyNoOciRuntime } from "../../plan/runtime-handler.js";
import { whyNoUserNamespaces } from "../../plan/user-namespaces.js";
import type { Handler, Services } from "../services.js";

/** Answers also without an engine: the conditions say what is not ready, and why. */
export const status: Handler<"Status"> = async (request, services, call) => {
  const { link } = services.state;
  const conditions = await readConditions(services, call.signal);
  const facts = link.facts;
  const problem = facts === undefined ? undefined : ociProblem(facts, services);
  return {
    status: { conditions },
    runtime_handlers: facts === undefined ? [] : handlersOf(facts, problem),
    features: {
      supplemental_groups_policy: true,
      mount_options: facts !== undefined && problem === undefined,
    },
    info: request.verbose ? verboseInfo(services, facts, call) : {},
  };
};

export interface Condition {
  readonly type: "RuntimeReady" | "NetworkReady";
  readonly status: boolean;
  /** Empty when the condition is met, like `message`. */
  readonly reason: string;
  readonly message: string;
}

/** Whether pods can be run now. Throws only the reason of `signal`. */
export async function readConditions(services: Services, signal: AbortSignal): Promise<readonly Condition[]> {
  return conditionsOf(services, await problemOf(services, signal));
}

/** As far as it is known without a request to the engine. */
export function presentConditions(services: Services): readonly Condition[] {
  return conditionsOf(services, presentProblem(services));
}

function conditionsOf(services: Services, engineProblem: string | undefined): readonly Condition[] {
  const networkProblem = services.network.notReadyReason() ?? outOfReach(services);
  return [
    condition("RuntimeReady", "DockerDaemonNotReady", engineProblem && `docker: ${engineProblem}`),
    condition(
      "NetworkReady",
      "NetworkPluginNotReady",
      networkProblem && `docker: network plugin is not ready: ${networkProblem}`,
    ),
  ];
}

/** A plugin that enters network namespaces needs the engine's processes. A VM or a PID namespace hides them. */
function outOfReach({ network, node: { host }, state: { link } }: Services): string | undefined {
  const { networkNamespaces } = host().reach.jobs;
  if (network.dockerNetworkMode !== "none" || link.state.phase !== "live") return undefined;
  if (tries(host().reach, "networkNamespaces") || networkNamespaces.reached) return undefined;
  return `the network namespaces of pods are out of reach: ${networkNamespaces.reason}`;
}

function condition(type: Condition["type"], reason: string, problem: string | undefined): Condition {
  if (problem === undefined) return { type, status: true, reason: "", message: "" };
  return { type, status: false, reason, message: problem };
}

/** While the link is broken, only a ping tells whether the engine is to be reached now. */
async function problemOf(services: Services, signal: AbortSignal): Promise<string | undefined> {
  const { engineLiveness, state } = services;
  const { link } = state;
  try {
    const isProven = link.state.phase === "live" && engineLiveness.isProven();
    if (!isProven) await engineLiveness.check(signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return `failed to reach the engine: ${ShimError.from(error).message}`;
  }
  return presentProblem(services);
}

function presentProblem({ node: { host }, state: { link } }: Services): string | undefined {
  switch (link.state.phase) {
    case "live":
      return reachProblem(host().reach);
    case "recovering":
      return "the state of the engine is still being read";
    case "lost":
      return link.state.reason.message;
  }
}

/** Of pods with the default handler. */
function ociProblem(facts: NodeFacts, { node: { ociRuntime } }: Services): string | undefined {
  const state = ociRuntime.state(facts);
  const problem =
    state === "works" ? undefined : state === "checking" ? "it is being found out" : state.problem;
  return whyNoOciRuntime({ facts, runtime: "", problem });
}

/** Features are those of the Docker runtime behind each handler. */
function handlersOf(facts: NodeFacts, problem: string | undefined): readonly Answer<RuntimeHandler>[] {
  const hasUsers = whyNoUserNamespaces(facts, problem) === undefined;
  return runtimeHandlers(facts).map((name) => {
    const runtime = dockerRuntime(name, facts) ?? "";
    return {
      name,
      features: {
        recursive_read_only_mounts: recursiveReadOnlyMounts({ facts, runtime, ociProblem: problem }),
        user_namespaces: hasUsers && (runtime === "" || runtime === facts.defaultRuntime),
      },
    };
  });
}

function verboseInfo(
  services: Services,
  facts: NodeFacts | undefined,
  { underWay = () => [] }: Pick<Call, "underWay">,
): Record<string, string> {
  const { network, images, node, state } = services;
  const { host, ociRuntime } = node;
  const { pause, pullRecords } = images;
  const { link } = state;
  return {
    calls: JSON.stringify(underWay().filter(({ rpc }) => rpc !== "Status")),
    config: JSON.stringify({ sandboxImage: pause.reference }),
    engine: JSON.stringify({ link: link.state.phase, ...facts }),
    network: JSON.stringify({ plugin: network.name, reason: network.reason, ...network.describe() }),
    ociRuntime: JSON.stringify(facts === undefined ? "unknown" : ociRuntime.state(facts)),
    userNamespaces: JSON.stringify(
      facts === undefined ? "unknown" : (whyNoUserNamespaces(facts, ociProblem(facts, services)) ?? "works"),
    ),
    pulls: JSON.stringify(pullRecords.running),
    reach: JSON.stringify(host().reach),
  };
}
