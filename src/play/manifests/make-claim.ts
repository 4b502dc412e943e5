/** Claims. */
import { parseQuantity } from "../../domain/quantity.js";
import type { Item } from "./collect.js";
import type { ClaimSpec } from "./object-schema.js";
import type { Owner } from "./manifest.js";
import type { Claim } from "./workloads.js";

export function makeClaim(
  { document, line, namespace, name }: Pick<Item<unknown>, "document" | "line" | "namespace" | "name">,
  spec: ClaimSpec,
  owner?: Owner,
): Claim {
  return {
    source: document.source,
    line,
    namespace,
    name,
    requestBytes: parseQuantity(spec.resources.requests.storage, 1),
    isReadOnly: spec.accessModes.every((mode) => mode === "ReadOnlyMany"),
    ...(owner === undefined ? {} : { owner }),
  };
}
