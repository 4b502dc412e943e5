/** What the pods of play need from this node, and from the CRI server. */
import { randomUUID } from "node:crypto";
import type { CriClient, connect } from "../../play/client.js";
import { nodeFiles } from "../../play/containers/files.js";
import { readNodeFacts } from "../../play/containers/node-facts.js";
import { podCgroupsOf } from "../../play/containers/prepare-cgroup.js";
import { serverFeatures } from "../../play/containers/server-features.js";
import { dialFromHere } from "../../play/dial.js";
import { makeHandlers } from "../../play/handlers/handlers.js";
import { backOffTimes, scaled } from "../../play/kubelet/back-off.js";
import { systemClock } from "../../play/kubelet/clock.js";
import type { DeleteDeps } from "../../play/kubelet/delete-pod.js";
import type { KubeletDeps } from "../../play/kubelet/kubelet.js";
import { RegistryCredentialStore } from "../registry/registry-credentials.js";
import type { PlayContext } from "./play-context.js";

type Client = ReturnType<typeof connect>;
type Context = Pick<PlayContext, "directories" | "report">;

const fastFactor = 0.1;

/** For the removal of pods. */
export function podDeps(
  client: CriClient,
  { directories, report }: Context,
): Omit<DeleteDeps, "event"> & Pick<KubeletDeps, "client" | "report" | "handlers"> {
  const handlers = makeHandlers({ client, dial: dialFromHere });
  return { client, files: nodeFiles, directories, report, handlers, clock: systemClock };
}

/** Each call of the result is for another play. Throws when the server does not answer. */
export async function readKubeletDeps(
  client: Client,
  context: Context,
  signal: AbortSignal,
): Promise<(options: { readonly fast?: boolean | undefined }) => Omit<KubeletDeps, "services">> {
  const deps = {
    ...podDeps(client, context),
    node: await readNodeFacts(context.directories.state, await podCgroupsOf(client, nodeFiles, signal)),
    features: serverFeatures(await client.status(signal)),
    credentials: dockerCredentials(context.report),
  };
  return ({ fast = false }) => ({
    ...deps,
    playId: randomUUID(),
    backOff: fast ? scaled(backOffTimes, fastFactor) : backOffTimes,
  });
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
