/** Security options of Docker, and what seccomp and AppArmor profiles have in common. */
import { type SELinuxOption, SecurityProfileProfileType, type SecurityProfile } from "../../domain/cri.js";
import { unreachable } from "../../lib/errors.js";

/**
 * `HostConfig.SecurityOpt`, in dockershim's order. Also that new privileges are allowed is said, because the
 * engine's configuration may have another default.
 */
export function securityOptions(parts: {
  readonly selinux: SELinuxOption | null | undefined;
  readonly appArmor: string | undefined;
  readonly noNewPrivileges: boolean;
  readonly seccomp: string | undefined;
}): readonly string[] {
  return [
    ...seLinuxLabels(parts.selinux ?? null),
    ...(parts.appArmor === undefined ? [] : [parts.appArmor]),
    parts.noNewPrivileges ? "no-new-privileges" : "no-new-privileges=false",
    ...(parts.seccomp === undefined ? [] : [parts.seccomp]),
  ];
}

function seLinuxLabels(option: SELinuxOption | null): readonly string[] {
  if (option === null) return [];
  const parts = [
    ["user", option.user],
    ["role", option.role],
    ["type", option.type],
    ["level", option.level],
  ] as const;
  return parts.filter(([, value]) => value !== "").map(([name, value]) => `label=${name}:${value}`);
}

/** The seccomp or AppArmor profile that a request asks for. */
export type ProfileChoice =
  /** The engine's default profile: no option at all. */
  | { readonly kind: "default" }
  | { readonly kind: "unconfined" }
  /** A profile of the node: a path for seccomp, a loaded profile's name for AppArmor. `field` says who named it. */
  | { readonly kind: "localhost"; readonly reference: string; readonly field: string };

/** Where the security context lies, in sandbox and container requests alike. */
export const securityContextField = "config.linux.security_context";

/** The prefix of local profiles in the older string fields; the message's reference may carry it too. */
export const localhostPrefix = "localhost/";

/** The choice that a profile message makes; an empty message is RuntimeDefault. */
export function fromMessage(profile: SecurityProfile, field: string): ProfileChoice {
  switch (profile.profile_type) {
    case SecurityProfileProfileType.RuntimeDefault:
      return { kind: "default" };
    case SecurityProfileProfileType.Unconfined:
      return { kind: "unconfined" };
    case SecurityProfileProfileType.Localhost:
      return { kind: "localhost", reference: profile.localhost_ref, field: `${field}.localhost_ref` };
    default:
      return unreachable(profile.profile_type);
  }
}
