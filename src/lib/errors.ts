/**
 * The one error class of the program. Adapters translate what they catch (`ShimError.from`), `grpc/status.ts`
 * alone turns a kind into a gRPC code. Callers match on `kind`, never on text.
 */

/** What went wrong, seen from the caller of a CRI call. */
export type ErrorKind =
  /** The request is malformed or contradicts itself. */
  | "invalid"
  /** What the request names does not exist. */
  | "notFound"
  /** A name is taken by something that must not be removed. */
  | "conflict"
  /** The object exists but is in the wrong state for the action. */
  | "precondition"
  /** Docker cannot express what is asked, or the RPC is not offered. */
  | "unsupported"
  /** The engine or the network is not there now; the same call may work later. */
  | "unavailable"
  /** A time limit passed. */
  | "timeout"
  /** The caller went away. */
  | "cancelled"
  /** A bounded resource is used up. */
  | "exhausted"
  /** A registry refused the credentials. */
  | "denied"
  /** A bug of this program. */
  | "internal"
  /** An answer that cannot be classified; its message is passed on. */
  | "unknown";

/** Ids, names and paths that belong to an error; logged as fields beside the message. Never secrets. */
export type ErrorFields = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * Wording of messages: the action, the quoted value, a colon, the state or reason; no full stop. The kubelet
 * copies them into pod events, so they are written for the reader of `kubectl describe pod`.
 */
export class ShimError extends Error {
  override readonly name = "ShimError";

  constructor(
    readonly kind: ErrorKind,
    message: string,
    readonly fields: ErrorFields = {},
    options?: { readonly cause?: unknown },
  ) {
    super(message, options);
  }

  /** `error` itself when it is a ShimError, else one that wraps it; aborts by their reason. */
  static from(error: unknown, fallback: ErrorKind = "internal"): ShimError {
    if (error instanceof ShimError) return error;
    if (error instanceof Error) {
      if (error.name === "TimeoutError") return new ShimError("timeout", error.message, {}, { cause: error });
      if (error.name === "AbortError") {
        if (error.cause instanceof ShimError) return error.cause;
        return new ShimError("cancelled", error.message, {}, { cause: error });
      }
      return new ShimError(fallback, error.message, {}, { cause: error });
    }
    return new ShimError(fallback, String(error));
  }

  /**
   * The same kind, fields and cause with `action: ` before the message, as in `pull image "x": no such host`.
   * A constant of the CRI at the beginning stays there, because kubelets look for it there.
   */
  within(action: string, fields: ErrorFields = {}): ShimError {
    const constant = criConstant.exec(this.message)?.[0] ?? "";
    const message = `${constant}${action}: ${this.message.slice(constant.length)}`;
    return new ShimError(this.kind, message, { ...fields, ...this.fields }, { cause: this });
  }
}

/** The error constants of the CRI, with which messages begin. */
const criConstant =
  /^(?:RegistryUnavailable|SignatureValidationFailed|RROUnsupported|ImageVolumeMountFailed): /;

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** For `catch` of a promise: undefined for an error of that kind. */
export function unlessKind(kind: ErrorKind): (error: unknown) => undefined {
  return (error) => {
    if (!isKind(error, kind)) throw error;
  };
}

/** For work of which only counts whether it can be done. */
export async function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}

/** Whether `error` is a ShimError of one of `kinds`. */
export function isKind(error: unknown, ...kinds: readonly ErrorKind[]): error is ShimError {
  return error instanceof ShimError && kinds.includes(error.kind);
}

/** Several as one: the kind of the first, the distinct messages as `[a, b]`; undefined for none. */
export function aggregate(errors: readonly unknown[]): ShimError | undefined {
  const [first, ...rest] = errors.map((error) => ShimError.from(error));
  if (first === undefined || rest.length === 0) return first;
  const messages = [...new Set([first, ...rest].map((error) => error.message))];
  if (messages.length === 1) return first;
  return new ShimError(first.kind, `[${messages.join(", ")}]`, first.fields, {
    cause: new AggregateError([first, ...rest]),
  });
}

/** Compile-time proof that a switch over a union is exhaustive. */
export function unreachable(value: never): never {
  throw new ShimError("internal", `unexpected value ${JSON.stringify(value)}`);
}
