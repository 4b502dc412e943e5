/** What a CRI server tells of the reach of its engine's host. Pure. */
import { type Owner, remappedRoot } from "../../domain/node-facts.js";
import { asObject, flagOf, objectOf, textOf } from "../../lib/json/json-readers.js";

export interface ServerReach {
  /** Whether the engine sees files of this host. Servers that do not tell it run beside their engine. */
  readonly hostPaths: boolean;
  readonly networkNamespaces: boolean;
  readonly engineId: string;
  /** Who root of a container is on the engine's host, when that is not its root. */
  readonly root: Owner | undefined;
  /** A directory of the server; undefined for servers that name none. */
  readonly directory: { readonly path: string; readonly id: string } | undefined;
}

/** From the texts of a verbose Status. */
export function readReach(info: Readonly<Record<string, string>>): ServerReach {
  const reach = asObject(parse(info["reach"]));
  const jobs = objectOf(reach, "jobs");
  const engine = asObject(parse(info["engine"]));
  const path = textOf(objectOf(reach, "directory"), "path");
  const id = textOf(objectOf(reach, "directory"), "id");
  const reaches = (name: string): boolean => {
    const job = objectOf(jobs, name);
    // A proof that is still to come is no proof of the opposite.
    return job["reached"] !== false || flagOf(job, "pending");
  };
  return {
    ...{ hostPaths: reaches("hostPaths"), networkNamespaces: reaches("networkNamespaces") },
    engineId: textOf(engine, "engineId"),
    root: remappedRoot({
      security: { usernsRemap: flagOf(objectOf(engine, "security"), "usernsRemap") },
      dockerRootDir: textOf(engine, "dockerRootDir"),
    }),
    directory: path === "" || id === "" ? undefined : { path, id },
  };
}

function parse(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined; // Of another program.
  }
}
