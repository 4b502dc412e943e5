/** Pulling and loading images: requests, progress, and what the errors in the progress stream mean. */
import { type ErrorKind, ShimError } from "../../lib/errors.js";
import { parseReference } from "../../domain/image-reference.js";
import type { PullProgress, RegistryCredentials } from "../ports/engine.js";
import { splitLines } from "./http/answer.js";
import { asObject, type Json, numberOf, objectOf, textOf } from "../../lib/json/json-readers.js";
import { parseJson } from "./http/json.js";

const lineLimitBytes = 1024 * 1024;

/** The query of `POST /images/create`; `invalid` for what is no image name. A digest counts more than a tag. */
export function pullQuery(reference: string): Readonly<Record<string, string>> {
  const parsed = parseReference(reference);
  if (parsed === undefined) throw new ShimError("invalid", `pull image "${reference}": not an image name`);
  return { fromImage: parsed.repository, tag: parsed.digest ?? parsed.tag ?? "latest" };
}

/**
 * X-Registry-Auth for a pull of `reference`; none without credentials. The engine takes credentials with the
 * address of another registry for its containerd image store as no credentials, and kubelets send addresses
 * in many spellings: so the address is that of the image's registry, in the spelling which the engine itself
 * uses for Docker Hub.
 */
export function registryAuthHeaders(
  reference: string,
  credentials: RegistryCredentials | undefined,
): Readonly<Record<string, string>> {
  if (credentials === undefined) return {};
  const registry = parseReference(reference)?.registry ?? "";
  const auth = {
    username: credentials.username,
    password: credentials.password,
    identitytoken: credentials.identityToken,
    registrytoken: credentials.registryToken,
    serveraddress: registry === "docker.io" ? "https://index.docker.io/v1/" : registry,
  };
  const base64 = Buffer.from(JSON.stringify(auth)).toString("base64");
  // URL-safe, with padding: Go's base64.URLEncoding.
  return { "X-Registry-Auth": base64.replaceAll("+", "-").replaceAll("/", "_") };
}

/** Reads a progress stream to its end. An error in it is thrown, its kind from `kindOf`: 200 says only that it began. */
export async function followProgress(
  chunks: AsyncIterable<Buffer>,
  action: string,
  onProgress: (progress: PullProgress) => void,
): Promise<void> {
  let failure: ShimError | undefined;
  for await (const line of splitLines(chunks, { action, limitBytes: lineLimitBytes })) {
    const message = asObject(parseJson(line, action));
    failure ??= errorIn(message);
    if (failure === undefined) onProgress(toProgress(message));
  }
  if (failure !== undefined) throw failure;
}

function toProgress(message: Json): PullProgress {
  const detail = objectOf(message, "progressDetail");
  return {
    layer: textOf(message, "id"),
    status: textOf(message, "status"),
    current: numberOf(detail, "current"),
    total: numberOf(detail, "total"),
  };
}

/** `error` is the older of the two fields, and is to go. */
function errorIn(message: Json): ShimError | undefined {
  const detail = objectOf(message, "errorDetail");
  const text = (textOf(detail, "message") || textOf(message, "error")).slice(0, 4096).trim();
  if (text === "") return undefined;
  return new ShimError(kindOfRegistryError(text, numberOf(detail, "code")), text, fromRegistry);
}

/** Tells a failure that the engine reports from one of the engine. */
const fromRegistry = { from: "registry" } as const;

/** A refusal of the request itself, before any progress, classified like an error in the stream. */
export function toPullError(error: unknown): unknown {
  if (!(error instanceof ShimError) || error.fields["status"] === undefined) return error;
  const kind = kindOfRegistryError(error.message, Number(error.fields["status"]));
  return new ShimError(
    kind === "unknown" ? error.kind : kind,
    error.message,
    { ...error.fields, ...fromRegistry },
    { cause: error },
  );
}

/** In this order: Docker Hub's "denied" comes in the same text as "does not exist". */
const registryErrors: readonly (readonly [ErrorKind, RegExp])[] = [
  [
    "denied",
    /\bunauthorized\b|\bdenied\b|authentication required|authorization failed|no basic auth credentials|incorrect username or password|\b40[13] (?:unauthorized|forbidden)/i,
  ],
  [
    "unavailable",
    /\b50[234]\b|bad gateway|service unavailable|gateway time-?out|connection refused|connection reset|no such host|no route to host|network is unreachable|host is down|server misbehaving|temporary failure in name resolution|i\/o timeout|handshake timeout|deadline exceeded|Client\.Timeout|awaiting headers|request canceled|\bEOF\b|broken pipe|server closed idle connection/i,
  ],
  ["notFound", /manifest unknown|name unknown|manifest for .* not found|does not exist|not found/is],
];

/**
 * What a registry's failure means, from its text: the engine has nothing else, and passes most of them on as
 * 500. The code of the engine's error, where it has one, is used only when the text says nothing.
 */
export function kindOfRegistryError(text: string, code: number): ErrorKind {
  for (const [kind, pattern] of registryErrors) {
    if (pattern.test(text)) return kind;
  }
  if (code === 401 || code === 403) return "denied";
  if (code === 404) return "notFound";
  if (code >= 502 && code <= 504) return "unavailable";
  return "unknown";
}
