/** Image references as Docker normalises them (registry, repository, tag, digest), and patterns of image names. */
import { removed } from "../lib/redact.js";

export interface ImageReference {
  /** With registry: `docker.io/library/busybox`. */
  readonly repository: string;
  readonly registry: string;
  readonly tag?: string;
  /** `sha256:…` */
  readonly digest?: string;
}

const digestPattern = /^(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})$/;
const idPattern = /^(?:sha256:)?[0-9a-f]{64}$/;
const tagPattern = /^\w[\w.-]{0,127}$/;
const componentPattern = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const registryPattern =
  /^(?:\[[0-9a-fA-F:]+\]|[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*)(?::\d+)?$/;

/** Longest whole reference; beyond all that its parts may have together. */
const referenceLimit = 1024;
/** Longest name below the registry. */
const pathLimit = 255;

/**
 * The parts of a reference, or undefined when Docker would refuse it. An id (64 hex digits, with or without
 * `sha256:`) is not a name, although Docker would read the longer form as tag of an image `sha256`.
 */
export function parseReference(text: string): ImageReference | undefined {
  if (text === "" || text.length > referenceLimit || idPattern.test(text)) return undefined;
  const at = text.indexOf("@");
  const digest = at === -1 ? undefined : text.slice(at + 1);
  if (digest !== undefined && !digestPattern.test(digest)) return undefined;
  const named = at === -1 ? text : text.slice(0, at);
  const colon = named.lastIndexOf(":");
  const hasTag = colon > named.lastIndexOf("/");
  const tag = hasTag ? named.slice(colon + 1) : undefined;
  if (tag !== undefined && !tagPattern.test(tag)) return undefined;
  const name = hasTag ? named.slice(0, colon) : named;
  const slash = name.indexOf("/");
  const first = slash === -1 ? "" : name.slice(0, slash);
  // Docker's rule: the first part is a registry when it can be no user name.
  const isRegistry = /[.:]/.test(first) || first === "localhost" || first !== first.toLowerCase();
  let registry = isRegistry ? first : "docker.io";
  let path = isRegistry ? name.slice(slash + 1) : name;
  if (registry === "index.docker.io") registry = "docker.io";
  if (registry === "docker.io" && !path.includes("/")) path = `library/${path}`;
  if (
    path.length > pathLimit ||
    !registryPattern.test(registry) ||
    !path.split("/").every((part) => componentPattern.test(part))
  )
    return undefined;
  return {
    registry,
    repository: `${registry}/${path}`,
    ...(tag === undefined ? {} : { tag }),
    ...(digest === undefined ? {} : { digest }),
  };
}

/**
 * The text without the user and password of an address, as in `user:password@registry/name`, which Docker refuses: an @
 * of an image reference is followed by a digest.
 */
export function withoutCredentials(text: string): string {
  const [digest = ""] = /@sha\d+:\w*$/.exec(text) ?? [];
  const at = text.lastIndexOf("@", text.length - digest.length - 1);
  return at === -1 ? text : removed + text.slice(at);
}

/** The full form (`busybox` → `docker.io/library/busybox:latest`); unreadable text stays as it is. */
export function normalizeReference(text: string): string {
  const reference = parseReference(text);
  if (reference === undefined) return text;
  if (reference.digest !== undefined) return `${reference.repository}@${reference.digest}`;
  return `${reference.repository}:${reference.tag ?? "latest"}`;
}

/**
 * Why no image could ever match `pattern`; undefined when one can. Patterns have CRI-O's three forms: a name,
 * a prefix (`registry.example/*`), a part (`*web*`). Names are compared in their full form.
 */
export function imagePatternFault(pattern: string): string | undefined {
  const text = pattern.endsWith("*") ? pattern.slice(pattern.startsWith("*") ? 1 : 0, -1) : pattern;
  if (text.includes("*")) return "may have a * at its end, or one at each end";
  return text === pattern && parseReference(text) === undefined ? "is not an image reference" : undefined;
}

/** Whether one of `patterns` matches an image by this tag or digest reference. */
export function imageNameMatcher(patterns: readonly string[]): (name: string) => boolean {
  const names = new Set<string>();
  const prefixes: string[] = [];
  const parts: string[] = [];
  for (const pattern of patterns) {
    if (!pattern.endsWith("*")) names.add(normalizeReference(pattern));
    else if (pattern.startsWith("*")) parts.push(pattern.slice(1, -1));
    else prefixes.push(pattern.slice(0, -1));
  }
  if (patterns.length === 0) return () => false;
  return (name) => {
    const full = normalizeReference(name);
    const matches = (text: string): boolean =>
      prefixes.some((prefix) => text.startsWith(prefix)) || parts.some((part) => text.includes(part));
    return names.has(full) || matches(name) || matches(full);
  };
}
