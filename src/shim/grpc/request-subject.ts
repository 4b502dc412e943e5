/** What a request is about, for the log. */

/** Standard log keys of a request's subject. */
export interface RequestSubject {
  /** `namespace/name` */
  readonly pod?: string;
  readonly sandboxId?: string;
  readonly containerId?: string;
  /** Name of the container that is to be created. */
  readonly container?: string;
  readonly image?: string;
}

const longestFieldCharacters = 256;

/** Ids, names and image of any CRI request that was decoded; nothing else of it may reach the log. */
export function subjectOf(request: unknown): RequestSubject {
  // CreateContainer carries the pod in sandbox_config, RunPodSandbox and RestorePod in config.
  const sandboxConfig = get(request, "sandbox_config");
  const config = get(request, "config");
  const metadata = get(sandboxConfig ?? config, "metadata");
  const namespace = textOf(get(metadata, "namespace"));
  const name = textOf(get(metadata, "name"));
  const subject: Record<keyof RequestSubject, string | undefined> = {
    pod: namespace === undefined || name === undefined ? undefined : `${namespace}/${name}`,
    sandboxId: textOf(get(request, "pod_sandbox_id")),
    containerId: textOf(get(request, "container_id")),
    container: sandboxConfig === undefined ? undefined : textOf(get(get(config, "metadata"), "name")),
    image: textOf(get(get(request, "image"), "image")),
  };
  return Object.fromEntries(Object.entries(subject).filter(([, value]) => value !== undefined));
}

function get(value: unknown, key: string): unknown {
  // undefined and null (a missing message) are the same here.
  if (typeof value !== "object" || value === null) return undefined;
  return (value as Record<string, unknown>)[key] ?? undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value.slice(0, longestFieldCharacters) : undefined;
}
