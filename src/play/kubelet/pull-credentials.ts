/** Credentials for pulls: imagePullSecrets, then those of Docker on this node. Never shown. */
import { ShimError, messageOf } from "../../lib/errors.js";
import type { Answer, AuthConfig } from "../../domain/cri.js";
import { parseReference } from "../../domain/image-reference.js";
import type { RegistryCredentials } from "../../shim/ports/engine.js";
import {
  type DockerConfigEntry,
  matchingEntries,
  parseDockerConfig,
  parseLegacyDockerConfig,
} from "../../shim/registry/docker-config.js";
import type { Manifest, SecretData } from "../manifests/read-manifests.js";

/** All credentials for an image, in the order in which to try them. */
export type CredentialLookup = (image: string, signal: AbortSignal) => Promise<readonly Answer<AuthConfig>[]>;

/** `RegistryCredentialStore` of the node: Docker's configuration files and credential helpers. */
export interface NodeCredentials {
  lookUp(reference: string, signal?: AbortSignal): Promise<readonly RegistryCredentials[]>;
}

export interface PullCredentialsDeps {
  readonly credentials: NodeCredentials;
  /** One line for the user. */
  readonly report: (line: string) => void;
}

/** As the kubelet, it goes on without a pull secret that is missing or cannot be read, and says so. */
export function pullCredentials(
  { pod, objects }: Pick<Manifest, "pod" | "objects">,
  { credentials, report }: PullCredentialsDeps,
): CredentialLookup {
  const entries: DockerConfigEntry[] = [];
  for (const { name } of pod.spec.imagePullSecrets ?? []) {
    try {
      entries.push(...entriesOf(objects.secrets.get(name)));
    } catch (error) {
      report(`pulling without imagePullSecret "${name}": ${messageOf(error)}`);
    }
  }
  return async (image, signal) => {
    const repository = parseReference(image)?.repository;
    if (repository === undefined) return [];
    const ofPod = matchingEntries(entries, repository).map((entry) => entry.credentials);
    return [...ofPod, ...(await credentials.lookUp(image, signal))].map(toAuthConfig);
  };
}

/** No error quotes anything of the secret. */
function entriesOf(secret: SecretData | undefined): readonly DockerConfigEntry[] {
  if (secret === undefined) throw new ShimError("notFound", "it is in none of the files");
  const whole = secret.data[".dockerconfigjson"];
  const legacy = secret.data[".dockercfg"];
  if (secret.type === "kubernetes.io/dockerconfigjson" && whole !== undefined)
    return parseDockerConfig(whole.toString("utf8")).entries;
  if (secret.type === "kubernetes.io/dockercfg" && legacy !== undefined)
    return parseLegacyDockerConfig(legacy.toString("utf8")).entries;
  throw new ShimError(
    "invalid",
    "it must have the type kubernetes.io/dockerconfigjson and the key .dockerconfigjson",
  );
}

function toAuthConfig(credentials: RegistryCredentials): Answer<AuthConfig> {
  const { username, password, serverAddress, identityToken, registryToken } = credentials;
  return {
    username,
    password,
    server_address: serverAddress,
    identity_token: identityToken,
    registry_token: registryToken,
  };
}
