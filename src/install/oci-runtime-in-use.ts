/** The OCI runtime stays as long as Docker starts it: containers that were made with it could not be stopped without it. */
import { ociRuntimeName } from "../domain/oci-changes.js";
import { ShimError } from "../lib/errors.js";
import { asObject, objectOf, textOf } from "../lib/json/json-readers.js";
import { NodeFiles } from "../migrate/files/node-files.js";
import type { InstallRecord } from "./install-record.js";

export const daemonConfiguration = "/etc/docker/daemon.json";

/** Throws `precondition` when Docker is configured to start a program of this installation. */
export async function checkOciRuntime(root: string, { files }: Pick<InstallRecord, "files">): Promise<void> {
  const reading = await new NodeFiles(root).read(daemonConfiguration);
  if (reading.kind !== "read") return;
  let configuration: unknown;
  try {
    configuration = JSON.parse(reading.text);
  } catch {
    return; // Docker does not start with it.
  }
  const path = textOf(objectOf(objectOf(asObject(configuration), "runtimes"), ociRuntimeName), "path");
  if (!files.some((file) => file.path === path)) return;
  throw new ShimError(
    "precondition",
    `uninstall dockershim: ${daemonConfiguration} has ${JSON.stringify(path)} as the runtime ${JSON.stringify(ociRuntimeName)}; remove the pods and that entry, and restart Docker, first: docs/run/oci-runtime.md (nothing is changed)`,
  );
}
