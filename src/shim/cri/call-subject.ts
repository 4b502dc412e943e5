/** What a call is about, for those that hear of its end: from its request, the read model and its answer. */
import type { Call } from "../../lib/call.js";
import type { ReadModel } from "../state/read-model.js";

/** What requests and answers name, as far as they have it. */
interface Named {
  readonly pod_sandbox_id?: string;
  readonly container_id?: string;
  /** Of the answer to ExecSync. */
  readonly exit_code?: number;
  readonly config?: PodConfig | null;
  readonly sandbox_config?: PodConfig | null;
}

interface PodConfig {
  /** A container's metadata has no uid. */
  readonly metadata: { readonly uid?: string } | null;
}

const longestUidCharacters = 256;

/** Before the call: what it removes is still known. */
export function identify(call: Call, request: Named, model: Pick<ReadModel, "container" | "sandbox">): void {
  const { subject } = call;
  if (subject === undefined) return;
  const uid = (request.sandbox_config ?? request.config)?.metadata?.uid ?? "";
  if (uid !== "") subject.podUid = uid.slice(0, longestUidCharacters);
  const { container_id: containerId = "", pod_sandbox_id: id = "" } = request;
  const container = containerId === "" ? undefined : oneOf(() => model.container(containerId));
  if (container !== undefined) {
    subject.containerId = container.id;
    subject.containerName = container.identity.name;
  }
  const sandboxId = container?.sandboxId ?? id;
  const sandbox = sandboxId === "" ? undefined : oneOf(() => model.sandbox(sandboxId));
  if (sandbox === undefined) return;
  const { namespace, name, uid: knownUid } = sandbox.pod;
  subject.sandboxId = sandbox.id;
  subject.pod = `${namespace}/${name}`;
  subject.podUid = knownUid;
}

/** Undefined also for the prefix of several ids: the call itself says so. */
function oneOf<Entity>(find: () => Entity | undefined): Entity | undefined {
  try {
    return find();
  } catch {
    return undefined;
  }
}

/** After it: what it has made. */
export function identifyMade({ subject }: Call, answer: Named | undefined): void {
  if (subject === undefined || answer === undefined) return;
  const { pod_sandbox_id: sandboxId, container_id: containerId, exit_code: exitCode } = answer;
  if (sandboxId !== undefined) subject.sandboxId = sandboxId;
  if (containerId !== undefined) subject.containerId = containerId;
  if (exitCode !== undefined) subject.exitCode = exitCode;
}
