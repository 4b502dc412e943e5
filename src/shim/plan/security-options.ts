/** `HostConfig.SecurityOpt`, in dockershim's order. */
import type { SELinuxOption } from "../domain/cri.js";

export function securityOptions(parts: {
  readonly selinux: SELinuxOption | null | undefined;
  readonly appArmor: string | undefined;
  readonly noNewPrivileges: boolean;
  readonly seccomp: string | undefined;
}): readonly string[] {
  return [
    ...seLinuxLabels(parts.selinux ?? null),
    ...(parts.appArmor === undefined ? [] : [parts.appArmor]),
    ...(parts.noNewPrivileges ? ["no-new-privileges"] : []),
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
