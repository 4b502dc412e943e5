/** Names the OCI runtime to Docker: one entry of daemon.json, which stays as it is otherwise. */
import { stat } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import { ociRuntimeName } from "../domain/oci-changes.js";
import { messageOf, ShimError, succeeds } from "../lib/errors.js";
import { writeFileAtomically } from "../lib/files/atomic-file.js";
import { formatJson, isObject, type Json, type JsonObject, parseJson } from "../lib/json/exact-json.js";
import { NodeFiles } from "../migrate/files/node-files.js";
import { daemonConfiguration } from "./oci-runtime-in-use.js";
import type { Step } from "./steps.js";
import type { Systemd } from "./systemd.js";

/**
 * Throws `precondition` for a file that cannot be edited without a person. Where the entry is there already, Docker is told
 * again: an earlier install may have been killed, or have failed, before.
 */
export async function planRegistration(
  { root, systemd }: { readonly root: string; readonly systemd: Systemd },
  program: string,
): Promise<readonly Step[]> {
  const files = new NodeFiles(root);
  const reading = await files.read(daemonConfiguration);
  if (reading.kind === "unreadable") throw byHand(reading.reason);
  const before = reading.kind === "read" ? reading.text : "{}\n";
  const text = withRuntime(before, program);
  const path = files.local(await files.resolve(daemonConfiguration));
  const write: Step = {
    text: `write   ${daemonConfiguration}: the runtime ${JSON.stringify(ociRuntimeName)}`,
    run: async () => {
      const mode = reading.kind === "read" ? (await stat(path)).mode & 0o777 : 0o644;
      await writeFileAtomically(path, text, { mode, temporaryPrefix: ".dockershim-", directoryMode: 0o755 });
    },
  };
  const reload: Step = {
    text: "run     systemctl reload docker",
    run: async () => {
      // One that does not run reads the file at its start.
      const isActive = await succeeds(systemd.run("is-active", "--quiet", "docker"));
      if (isActive) await systemd.run("reload", "docker");
    },
  };
  return [...(text === before ? [] : [write]), ...(systemd.kind === "running" ? [reload] : [])];
}

/** The text with the entry; the same text where it is there. Throws as above. */
export function withRuntime(text: string, path: string): string {
  const before = parsed(text);
  const runtimes = before["runtimes"] ?? {};
  if (!isObject(runtimes)) throw byHand('"runtimes" is no object');
  const present = runtimes[ociRuntimeName];
  const entry: JsonObject = { path };
  if (isDeepStrictEqual(present, entry)) return text;
  if (present !== undefined) throw byHand(`it has another runtime ${JSON.stringify(ociRuntimeName)}`);
  const own = `${JSON.stringify(ociRuntimeName)}: ${formatJson(entry)}`;
  const edited =
    before["runtimes"] === undefined
      ? text.replace("{", () => `{\n  "runtimes": { ${own} }${Object.keys(before).length > 0 ? "," : "\n"}`)
      : text.replace(
          /("runtimes"\s*:\s*\{)/,
          (start) => `${start} ${own}${Object.keys(runtimes).length > 0 ? "," : " "}`,
        );
  const expected = { ...before, runtimes: { ...runtimes, [ociRuntimeName]: entry } };
  // The same word elsewhere in the file leads the edit astray.
  if (!isDeepStrictEqual(parsed(edited), expected)) throw byHand("the place of the entry is not clear");
  return edited;
}

function parsed(text: string): JsonObject {
  let value: Json;
  try {
    value = parseJson(text);
  } catch (error) {
    throw byHand(messageOf(error));
  }
  if (!isObject(value)) throw byHand("it is no object");
  return value;
}

function byHand(reason: string): ShimError {
  return new ShimError(
    "precondition",
    `edit ${daemonConfiguration}: ${reason}; docs/run/oci-runtime.md has the lines to add by hand (nothing is changed)`,
  );
}
