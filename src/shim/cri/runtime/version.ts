import type { Call } from "../../../lib/call.js";
import type { Answer, VersionResponse } from "../../../domain/cri.js";
import type { Services } from "../services.js";

/** Kubelets up to 1.20 compare with this string. */
const kubeRuntimeApiVersion = "0.1.0";

/**
 * `runtime_name` is `docker`, like that of dockershim and cri-dockerd: it is the prefix of container ids in
 * pod statuses. For a runtime of that name kubelets up to 1.23 parse `runtime_api_version` as the version of
 * Docker's API.
 */
export async function version(
  _request: unknown,
  { engine, state: { link } }: Services,
  call: Call,
): Promise<Answer<VersionResponse>> {
  const known = link.facts;
  const { version: engineVersion, apiVersion } =
    known === undefined
      ? await engine.version(call.signal)
      : { version: known.engineVersion, apiVersion: known.engineApiVersion };
  return {
    version: kubeRuntimeApiVersion,
    runtime_name: "docker",
    runtime_version: engineVersion,
    runtime_api_version: `${apiVersion}.0`,
  };
}
