/** crictl's configuration: without it `crictl` would ask a socket that nobody serves any more. */
import { isInStore } from "../kubelet/dependencies.js";
import { defaultSockets, socketPath } from "../kubelet/target.js";
import { setYamlValue } from "./edit-yaml.js";
import type { WorkingFiles } from "./working-files.js";

export const crictlFile = "/etc/crictl.yaml";

/** Its endpoints, where they are those of before. A file that is not understood stays: no pod depends on it. */
export async function editCrictl(files: WorkingFiles, before: string, after: string): Promise<void> {
  const reading = await files.read(crictlFile);
  if (reading.kind !== "read" || isInStore(reading.path)) return;
  // The dockershim inside a kubelet has the path of this program.
  const [old, now] = [before, after].map((endpoint) => endpoint || defaultSockets.dockershim);
  let { text } = reading;
  for (const key of ["runtime-endpoint", "image-endpoint"]) {
    const [, value = ""] = new RegExp(`^${key}:\\s*["']?([^"'\\s#]+)`, "m").exec(text) ?? [];
    if (
      value === "" ||
      socketPath(value) !== socketPath(old ?? "") ||
      socketPath(value) === socketPath(now ?? "")
    )
      continue;
    text = (await setYamlValue(text, key, now ?? "")) ?? text;
  }
  if (text !== reading.text) files.set(reading.path, text);
}
