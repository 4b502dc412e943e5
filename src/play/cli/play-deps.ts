/** What the pods of play need from this node, and from the CRI server. */
import type { CriClient, connect } from "../cri/client.js";
import { engineNodeFacts, readNodeFacts, renewNodeFacts } from "../node/node-facts.js";
import type { NodeFacts } from "../pod-config/cri-config.js";
import { podCgroupsOf } from "../node/prepare-cgroup.js";
import { serverFeatures } from "../pod-config/server-features.js";
import { makeHandlers } from "../probes/run-probes-and-hooks.js";
import { backOffTimes, scaled } from "../kubelet/back-off.js";
import { systemClock } from "../kubelet/clock.js";
import type { PodAccess, Reports } from "../kubelet/kubelet-deps.js";
import { isEmpty } from "../services/redirect-ports.js";
import type { PodRules } from "../services/redirects.js";
import type { PlayDeps } from "../session/session.js";
import { type PlayProcesses, newPlayId } from "../kubelet/pod-owner.js";
import type { StatusResponse } from "../../domain/cri.js";
import { ShimError } from "../../lib/errors.js";
import { bootId } from "../../lib/linux/network-namespaces.js";
import { isAlive, markOf } from "../../lib/linux/process-mark.js";
import { RegistryCredentialStore } from "../../shim/registry/registry-credentials.js";
import type { PlayContext } from "./play-context.js";
import type { EngineAccess } from "./engine-access.js";

type Client = ReturnType<typeof connect>;
type Context = Pick<PlayContext, "report">;

const fastFactor = 0.1;

/** For the removal of pods. */
export function podDeps(
  client: CriClient,
  { files, mounted, directories, dial, engine }: EngineAccess,
  { report }: Context,
): PodAccess & Reports {
  const handlers = makeHandlers({
    client,
    dial,
    ...(engine === undefined ? {} : { answers: engine.answers }),
  });
  const processes = playProcesses();
  return { client, files, mounted, directories, report, handlers, clock: systemClock, processes };
}

/** Each call of the result is for another play. `status`: the server's. Throws when it does not answer. */
export async function readKubeletDeps(
  client: Client,
  access: EngineAccess,
  { report, status }: Context & { readonly status: StatusResponse },
  signal: AbortSignal,
): Promise<(options: { readonly fast?: boolean | undefined }) => PlayDeps> {
  const { engine } = access;
  const deps = {
    ...podDeps(client, access, { report }),
    node: await nodeFactsOf(client, access, signal),
    features: {
      ...serverFeatures(status, (await client.version(signal)).runtime_name),
      ...(engine === undefined ? {} : { remote: await engine.files.mounting() }),
    },
    ...(engine?.seesNamespaces === false ? { redirect: refuseRedirects } : {}),
    credentials: dockerCredentials(report),
  };
  return ({ fast = false }) => ({
    ...deps,
    playId: newPlayId(deps.processes),
    backOff: fast ? scaled(backOffTimes, fastFactor) : backOffTimes,
  });
}

/** Services names the Service and the port that works. */
function refuseRedirects(_: unknown, rules: PodRules): Promise<void> {
  if (isEmpty(rules)) return Promise.resolve();
  const reason = "the engine is elsewhere, and network namespaces of its pods cannot be reached from here";
  return Promise.reject(new ShimError("unsupported", reason));
}

async function nodeFactsOf(
  client: Client,
  { files, directories, engine }: EngineAccess,
  signal: AbortSignal,
): Promise<NodeFacts> {
  if (engine === undefined) return readNodeFacts(directories.state, podCgroupsOf(client, files, signal));
  return engineNodeFacts(engine.facts, { storageBytes: await engine.files.space(), host: engine.host });
}

/** Brings the facts up to date in place; those of a remote engine do not change while it runs. */
export async function renewFacts(node: NodeFacts, { engine, directories }: EngineAccess): Promise<void> {
  if (engine === undefined) await renewNodeFacts(node, directories.state);
}

/** Those of `docker login`, in DOCKER_CONFIG or the home directory. */
function dockerCredentials(report: (line: string) => void): RegistryCredentialStore {
  const log = {
    warn: (...args: unknown[]) => {
      const [fields, message] = args as [Readonly<Record<string, string>>, string];
      report(`${message}: ${fields["path"] ?? fields["registry"] ?? ""}: ${fields["err"] ?? ""}`);
    },
    debug: () => undefined,
  };
  // Not the working directory: a config.json there is often that of a project.
  return new RegistryCredentialStore({ directory: process.env["DOCKER_CONFIG"], workingDirectory: "", log });
}

const mark = /^(\d{1,10})-(\d{1,20})-([0-9a-f-]*)$/;

/** Processes of play on this host, as `PodOwner` marks them. */
export function playProcesses(): PlayProcesses {
  const self = markOf(process.pid);
  return {
    // Without /proc, as on macOS, there is none.
    own: self === undefined ? undefined : `${self.pid}-${self.startTime}-${bootId()}`,
    isAlive: async (text) => {
      const [, pid, startTime = "", boot] = mark.exec(text) ?? [];
      return boot === bootId() && (await isAlive({ pid: Number(pid), startTime }));
    },
    describe: (text) => `process ${mark.exec(text)?.[1] ?? text}`,
  };
}
