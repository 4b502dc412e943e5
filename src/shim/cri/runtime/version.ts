import type { Handler } from "../services.js";

/** Kubelets up to 1.20 compare with this string. */
const kubeRuntimeApiVersion = "0.1.0";

/**
 * `runtime_name` is `docker`, like that of dockershim and cri-dockerd: it is the prefix of container ids in
 * pod statuses. For a runtime of that name kubelets up to 1.23 parse `runtime_api_version` as the version of
 * Docker's API.
 */
export const version: Handler<"Version"> = async (_request, { engine, state: { link } }, call) => {
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
};
