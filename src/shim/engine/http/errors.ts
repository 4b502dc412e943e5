/** Refusals of the engine and failed connections to it, as ShimErrors. */
import { type ErrorFields, type ErrorKind, messageOf, ShimError } from "../../../lib/errors.js";
import { notHttpCode } from "./answer-parser.js";

/** As Docker 1.13 to 29 write it; the id is in quotes since 17.03. */
const nameConflict = /Conflict\. .+ is already in use by container "?([0-9a-f]+)"?/s;

const missingObject = /no such (container|image|exec|network|volume)|\b(network) \S+ not found$/i;

/**
 * The refusal of an engine that was up- or downgraded after the API version was negotiated. Matched from the
 * begin of the text: later parts quote the author of a pod, as in a command.
 */
const versionMismatch = /^client version \S+ is too (?:new|old)/;

/** Longest message that is passed on, in characters. Docker quotes whole command lines and scripts. */
const messageLimit = 4096;

/**
 * The id of the container that has the name which a create asked for, from the text of Docker's refusal: it
 * stands nowhere else. Undefined for any other text.
 */
export function parseNameConflict(message: string): string | undefined {
  return nameConflict.exec(message)?.[1];
}

/** The text of an error answer: Docker's `message`, or whatever else is in the body. */
export function refusalMessage(status: number, body: Buffer): string {
  const text = body.toString("utf8").trim();
  let message = text;
  try {
    const json: unknown = JSON.parse(text);
    if (typeof json === "object" && json !== null && "message" in json && typeof json.message === "string")
      message = json.message.trim();
  } catch {
    // The answer of a proxy before the engine: plain text.
  }
  if (message === "") return `the engine answered with HTTP status ${status}`;
  return message.length > messageLimit ? `${message.slice(0, messageLimit)}…` : message;
}

/**
 * The error for an answer that is no success, with Docker's own words and these fields: `status` (HTTP),
 * `conflictingId` (on a name conflict), `missing` (container, image, exec, network or volume, for a 404 that
 * says which).
 */
export function refusal(status: number, body: Buffer): ShimError {
  const message = refusalMessage(status, body);
  const fields: ErrorFields = { status };
  const conflictingId = status === 409 ? parseNameConflict(message) : undefined;
  if (conflictingId !== undefined) return new ShimError("conflict", message, { ...fields, conflictingId });
  if (status === 404) {
    const [, named, network] = missingObject.exec(message) ?? [];
    return new ShimError("notFound", message, { ...fields, missing: (named ?? network)?.toLowerCase() });
  }
  return new ShimError(kindOfStatus(status, message), message, fields);
}

function kindOfStatus(status: number, message: string): ErrorKind {
  switch (status) {
    case 400:
      return versionMismatch.test(message) ? "unavailable" : (knownKind(message) ?? "invalid");
    case 401:
    case 403:
      return "denied";
    case 409:
      return "precondition";
    case 501:
      return "unsupported";
    case 502:
    case 503:
    case 504:
      return "unavailable";
    default:
      return knownKind(message) ?? "unknown";
  }
}

function knownKind(message: string): ErrorKind | undefined {
  return knownErrors.find(([text]) => text.test(message))?.[1];
}

const ociRuntime =
  "^(?:failed to create task for container: )?(?:failed to create shim task: )?OCI runtime create failed: ";

/**
 * Errors whose cause the engine's status does not tell: it is 500 for most that a start meets. Matched from the
 * begin or at the end, for the same reason.
 */
const knownErrors: readonly (readonly [text: RegExp, kind: ErrorKind])[] = [
  [/^container \S+ is not running/i, "precondition"],
  // It ended while runc updated it, or while containerd was about to have it updated.
  [
    /^Cannot update container \S+: (?:.+: container not running|cannot update a (?:stopped container|deleted process))\s*(?:: unknown)?$/s,
    "precondition",
  ],
  [
    new RegExp(
      [
        '^(?:failed to set up container networking: )?(?:driver failed programming [^"]*: )?',
        "(?:Bind for \\S+ failed: port is already allocated",
        "|(?:Error starting userland proxy: )?listen \\S+ \\S+: bind: address already in use",
        "|failed to bind host port (?:for )?\\S+: address already in use)$",
      ].join(""),
    ),
    "conflict",
  ],
  // The container whose namespace is to be joined.
  [
    new RegExp(
      [
        "^(?:cannot join PID of a non running container: \\S+|can't join IPC of container \\S+",
        "|joining network namespace of container|failed to join (?:PID|IPC) namespace)",
        ": (?:No such container: \\S+|container \\S+ is not running)$",
      ].join(""),
      "i",
    ),
    "precondition",
  ],
  // What the node, or the engine's configuration, lacks.
  [
    new RegExp(
      [
        "^(?:failed to create task for container: )?(?:CDI device injection failed: ",
        "|could not select device driver |failed to initialize logging driver: ",
        "|error gathering device information while adding custom device ",
        "|error while creating mount source path '|error while mounting volume ')",
      ].join(""),
    ),
    "precondition",
  ],
  // A cgroup controller that the node has not mounted or enabled. A file that is missing is 400 for Docker.
  [
    new RegExp(
      [
        `(?:${ociRuntime}(?:runc create failed: )?(?:container_linux\\.go:\\d+: )?`,
        "(?:unable to start container process|starting container process caused): (?:process_linux\\.go:\\d+: )?",
        '(?:error )?(?:unable to apply|applying|setting) cgroup config[^"]*: (?:no such file or directory',
        '|mountpoint for \\S+ not found|[^:"]*container could not join or create cgroup)',
        "|^(?:failed to create task for container: )?cgroups: cgroup mountpoint does not exist)(?:: unknown)?$",
      ].join(""),
      "s",
    ),
    "precondition",
  ],
  [/^unable to find (?:user|group) .*: no matching entries in (?:passwd|group) file$/is, "invalid"],
  [new RegExp(`${ociRuntime}.* for seccomp(?:: unknown)?$`, "s"), "invalid"],
  [
    /^(?:failed to set up container networking: )?no available (?:IPv[46] )?addresses on this network's address pools: /,
    "exhausted",
  ],
  [/: (?:no space left on device|disk quota exceeded)(?:: unknown)?$/, "exhausted"],
  [new RegExp(`${ociRuntime}.*container init was OOM-killed \\(.*\\)(?:: unknown)?$`, "s"), "exhausted"],
  // containerd.
  [/^Unavailable: |: unavailable$/, "unavailable"],
];

/** Code of the error of a connection that was not made in time. */
export const connectTimeoutCode = "ERR_CONNECT_TIMEOUT";

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "no such socket",
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection closed without an answer",
  EPIPE: "connection closed without an answer",
  EACCES: "permission denied",
  EAGAIN: "too many connections wait for the engine",
  ENOTSOCK: "not a socket",
  ENOTFOUND: "no such host",
  ETIMEDOUT: "connection timed out",
  [notHttpCode]: "the answer is not HTTP",
  [connectTimeoutCode]: "no connection within 4 s",
};

/** The connection was never made: the engine has not received the request. */
const notSent: ReadonlySet<string> = new Set([
  "ENOENT",
  "ECONNREFUSED",
  "EACCES",
  "EAGAIN",
  "ENOTSOCK",
  "ENOTFOUND",
  connectTimeoutCode,
]);

/**
 * Field of errors after which the engine may have carried out the request, or may still do so: it may have
 * received the request, and its answer is lost. A refusal is an answer and never has this field.
 */
export const lostAnswer: ErrorFields = { answer: "lost" };

/** `unavailable`: a connection failed before the engine answered. `failure` is what the program that makes it says. */
export function unreachable(endpoint: string, error: unknown, failure?: string): ShimError {
  const code = errorCode(error);
  const reason = failure ?? reasons[code] ?? messageOf(error);
  return new ShimError(
    "unavailable",
    `cannot reach the Docker Engine at ${endpoint}: ${reason}`,
    notSent.has(code) ? {} : lostAnswer,
    { cause: error },
  );
}

/** `unavailable`, for a connection that broke within an answer. */
export function brokenAnswer(action: string, error?: unknown): ShimError {
  const message = `${action}: the connection to the Docker Engine broke in the middle of its answer`;
  return new ShimError("unavailable", message, lostAnswer, { cause: error });
}

function errorCode(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}
