/** Which versions of the specification the installed plugins speak, asked once per binary. */
import { messageOf, ShimError } from "../../shim/lib/errors.js";
import { LruMap } from "../../shim/lib/lru-map.js";
import { nodeCall, type PluginInvoker } from "./invoke.js";
import { isList, isObject, parseJson, stringAt } from "../../shim/lib/json/exact-json.js";
import { newestVersion, oldestVersion } from "./versions.js";

const binariesKept = 200;

export class PluginVersions {
  readonly #known = new LruMap<string, readonly string[]>(binariesKept);

  constructor(private readonly invoker: PluginInvoker) {}

  /** Throws what `PluginInvoker.run` throws, and `unknown` for an answer without sense. */
  async supportedBy(type: string, signal: AbortSignal): Promise<readonly string[]> {
    const { fingerprint } = await this.invoker.find(type);
    const known = this.#known.get(fingerprint);
    if (known !== undefined) return known;
    const versions = await this.#ask(type, signal);
    this.#known.set(fingerprint, versions);
    return versions;
  }

  async #ask(type: string, signal: AbortSignal): Promise<readonly string[]> {
    let reply: string;
    try {
      reply = await this.invoker.run(nodeCall(type, "VERSION", { cniVersion: newestVersion }), signal);
    } catch (error) {
      // So speak plugins that are older than the command.
      if (error instanceof ShimError && error.fields["cniMessage"] === "unknown CNI_COMMAND: VERSION") {
        return [oldestVersion];
      }
      throw error;
    }
    return versionsIn(type, reply);
  }
}

function versionsIn(type: string, reply: string): readonly string[] {
  const complain = (reason: string): never => {
    throw new ShimError("unknown", `CNI plugin ${JSON.stringify(type)} VERSION: ${reason}`, { plugin: type });
  };
  let value;
  try {
    value = parseJson(reply);
  } catch (error) {
    return complain(`the answer is no JSON: ${messageOf(error)}`);
  }
  if (!isObject(value)) return complain("the answer is no JSON object");
  const { supportedVersions } = value;
  if (supportedVersions === undefined && stringAt(value, "cniVersion") === "0.2.0") return ["0.1.0", "0.2.0"];
  if (!isList(supportedVersions)) return complain(`the answer has no "supportedVersions"`);
  return supportedVersions.filter((version) => typeof version === "string");
}
