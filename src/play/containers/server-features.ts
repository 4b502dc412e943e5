/** What the CRI server says of its runtime handlers. */
import type { StatusResponse } from "../../shim/domain/cri.js";

export interface ServerFeatures {
  /** Names of the runtime handlers that make mounts below a read-only mount read-only, too; "" is the default. */
  readonly recursiveReadOnly: ReadonlySet<string>;
}

/** Servers that name no handlers support nothing, as a kubelet sees it. */
export function serverFeatures({ runtime_handlers }: StatusResponse): ServerFeatures {
  const able = runtime_handlers.filter(({ features }) => features?.recursive_read_only_mounts === true);
  return { recursiveReadOnly: new Set(able.map(({ name }) => name)) };
}
