/** seccomp: from the CRI's two fields to Docker's security option. */
import { ShimError } from "../../lib/errors.js";
import type { SecurityProfile } from "../../domain/cri.js";
import { invalidField, quote } from "../../domain/field-errors.js";
import { climbs } from "./paths.js";
import {
  fromMessage,
  localhostPrefix,
  securityContextField,
  type ProfileChoice,
} from "./security-options.js";

/** The CRI fields, and their place in the request. */
export interface SeccompRequest {
  readonly seccomp: SecurityProfile | null;
  /** The string that kubelets up to 1.18 send instead. */
  readonly seccomp_profile_path: string;
}

export interface SeccompContext {
  /** What a request without either field means. */
  readonly absent: "default" | "unconfined";
  /** Path of the security context. */
  readonly field: string;
}

/**
 * The message wins over the string. With neither, a container is unconfined (what dockershim did and critest
 * asks), while a sandbox keeps the engine's default profile, as it always had.
 */
export function chooseSeccomp(request: SeccompRequest, context: SeccompContext): ProfileChoice {
  const choice =
    request.seccomp === null
      ? fromString(request.seccomp_profile_path, context)
      : fromMessage(request.seccomp, `${context.field}.seccomp`);
  if (choice.kind === "localhost" && !choice.reference.startsWith("/"))
    throw invalidField(choice.field, "a seccomp profile needs an absolute path", choice.reference);
  // Kubelets put the directory of their profiles before what a pod names.
  if (choice.kind === "localhost" && climbs(choice.reference))
    throw invalidField(choice.field, 'has a ".." part', choice.reference);
  return choice;
}

function fromString(path: string, context: SeccompContext): ProfileChoice {
  const field = `${context.field}.seccomp_profile_path`;
  if (path === "") return { kind: context.absent };
  if (path === "unconfined") return { kind: "unconfined" };
  if (path === "runtime/default" || path === "docker/default") return { kind: "default" };
  if (path.startsWith(localhostPrefix))
    return { kind: "localhost", reference: path.slice(localhostPrefix.length), field };
  throw invalidField(field, "unknown seccomp profile option", path);
}

/** Docker's option, undefined for the engine's default. `profile` is the content of the Localhost file. */
export function seccompOption(choice: ProfileChoice, profile: string | undefined): string | undefined {
  if (choice.kind === "default") return undefined;
  if (choice.kind === "unconfined") return "seccomp=unconfined";
  if (profile === undefined) {
    throw new ShimError(
      "internal",
      `seccomp profile ${quote(choice.reference)} was not read before planning`,
    );
  }
  return `seccomp=${compactProfile(profile, choice)}`;
}

function compactProfile(
  profile: string,
  choice: { readonly reference: string; readonly field: string },
): string {
  try {
    const parsed: unknown = JSON.parse(profile);
    if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed))
      throw new Error("not a JSON object");
  } catch (cause) {
    throw new ShimError(
      "invalid",
      `${choice.field}: cannot load seccomp profile ${quote(choice.reference)}: not a JSON object`,
      { field: choice.field },
      { cause },
    );
  }
  return compactJson(profile);
}

/** Valid JSON without white space between its tokens. Not parsed and written anew: argument masks exceed 2^53. */
export function compactJson(json: string): string {
  return json.replace(/("(?:[^"\\]|\\.)*")|\s+/g, (_, text: string | undefined) => text ?? "");
}

/** The file whose content a security context needs before planning; undefined when it names none or is privileged. */
export function localhostSeccompPath(
  security: (SeccompRequest & { readonly privileged: boolean }) | null | undefined,
): string | undefined {
  if (security === null || security === undefined || security.privileged) return undefined;
  const choice = chooseSeccomp(security, { absent: "default", field: securityContextField });
  return choice.kind === "localhost" ? choice.reference : undefined;
}
