/** Which entries of a Docker configuration file apply to an image, by the kubelet's rules. */

/** Docker Hub's name in configuration files, by which `docker login` files its credentials. */
const hubKey = "index.docker.io";

/** `https://index.docker.io/v1/` → `index.docker.io`: without scheme, API version and closing slash. */
export function normalizeRegistryKey(key: string): string {
  const bare = key.replace(/^[a-z][a-z0-9+.-]*:\/\//i, "");
  const slash = bare.indexOf("/");
  if (slash === -1) return bare;
  const host = bare.slice(0, slash);
  const path = bare.slice(slash).replace(/^\/v[12](?=\/)/, "");
  return path === "/" ? host : host + path;
}

/**
 * The entries for an image, those with the longest path first: same port, as many parts of the host name, each part a
 * shell glob, and a path that the image's begins with. When there are none, those of Docker Hub for its images.
 * `repository` has its registry: `docker.io/library/busybox`. Keys are normalised.
 */
export function matchingEntries<T extends { readonly key: string }>(
  entries: readonly T[],
  repository: string,
): readonly T[] {
  const ordered = entries.toSorted((a, b) => (a.key < b.key ? 1 : a.key > b.key ? -1 : 0));
  const matches = ordered.filter((entry) => keyMatches(entry.key, repository));
  if (matches.length > 0 || !isHubImage(repository)) return matches;
  return ordered.filter((entry) => entry.key === hubKey);
}

export function isHubImage(repository: string): boolean {
  return repository.startsWith("docker.io/");
}

function keyMatches(key: string, repository: string): boolean {
  const glob = splitKey(key);
  const target = splitKey(repository);
  return (
    glob.port === target.port &&
    glob.hostParts.length === target.hostParts.length &&
    target.path.startsWith(glob.path) &&
    glob.hostParts.every((part, index) => globMatches(part, target.hostParts[index] ?? ""))
  );
}

function splitKey(key: string): {
  readonly hostParts: readonly string[];
  readonly port: string;
  readonly path: string;
} {
  const slash = key.indexOf("/");
  const authority = slash === -1 ? key : key.slice(0, slash);
  const [, host = authority, port = ""] = /^(.*):(\d+)$/.exec(authority) ?? [];
  return { hostParts: host.split("."), port, path: slash === -1 ? "" : key.slice(slash) };
}

/** `*`, `?` and `[a-z]`. A pattern that is none matches nothing. */
function globMatches(pattern: string, text: string): boolean {
  const source = pattern.replaceAll(/\[\^?[^\][\\]+\]|[\s\S]/g, (token) => {
    if (token === "*") return ".*";
    if (token === "?") return ".";
    return token.length > 1 ? token : token.replace(/[$()*+./?[\\\]^{|}-]/, "\\$&");
  });
  try {
    return new RegExp(`^${source}$`, "s").test(text);
  } catch {
    return false; // A range that runs backwards.
  }
}
