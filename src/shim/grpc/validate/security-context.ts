/** Security contexts of sandboxes and containers. */
import {
  NamespaceMode,
  SecurityProfileProfileType,
  SupplementalGroupsPolicy,
  type LinuxContainerSecurityContext,
  type LinuxSandboxSecurityContext,
  type NamespaceOption,
  type SecurityProfile,
} from "../../../domain/cri.js";
import { maxUserId } from "../../../domain/image-users.js";
import { chooseAppArmor } from "../../plan/apparmor.js";
import { invalidField } from "../../../domain/field-errors.js";
import { chooseSeccomp } from "../../plan/seccomp.js";
import { requestedUsers } from "../../plan/user-namespaces.js";
import { userText } from "../../plan/users.js";
import { absolutePath, at, enumValue, integer, notEmpty, word } from "./fields.js";

/** Docker takes user and group ids of 31 bits. */
const ids = { min: 0n, max: BigInt(maxUserId) };

export function sandboxSecurityContext(field: string, context: LinuxSandboxSecurityContext): void {
  sharedSecurityContext(field, context);
  namespaceOptions(`${field}.namespace_options`, context.namespace_options, { target: false });
}

export function containerSecurityContext(field: string, context: LinuxContainerSecurityContext): void {
  sharedSecurityContext(field, context);
  namespaceOptions(`${field}.namespace_options`, context.namespace_options, { target: true });
  username(`${field}.run_as_username`, context);
  capabilities(`${field}.capabilities`, context);
  for (const name of ["masked_paths", "readonly_paths"] as const) {
    context[name].forEach((path, index) => {
      absolutePath(at(`${field}.${name}`, index), path);
    });
  }
}

function sharedSecurityContext(
  field: string,
  context: LinuxSandboxSecurityContext | LinuxContainerSecurityContext,
): void {
  if (context.run_as_user !== null) integer(`${field}.run_as_user`, context.run_as_user.value, ids);
  if (context.run_as_group !== null) integer(`${field}.run_as_group`, context.run_as_group.value, ids);
  userText(context); // A group needs a user.
  context.supplemental_groups.forEach((group, index) => {
    integer(at(`${field}.supplemental_groups`, index), group, ids);
  });
  const policy = context.supplemental_groups_policy;
  enumValue(`${field}.supplemental_groups_policy`, policy, SupplementalGroupsPolicy);
  for (const part of ["user", "role", "type", "level"] as const) {
    const value = context.selinux_options?.[part] ?? "";
    if (value !== "") word(`${field}.selinux_options.${part}`, value);
  }
  profile(`${field}.seccomp`, context.seccomp);
  profile(`${field}.apparmor`, context.apparmor);
  chooseSeccomp(context, { absent: "default", field });
  const appArmor = chooseAppArmor(context, field);
  if (appArmor.kind === "localhost") word(appArmor.field, appArmor.reference);
}

function profile(field: string, message: SecurityProfile | null): void {
  if (message === null) return;
  enumValue(`${field}.profile_type`, message.profile_type, SecurityProfileProfileType);
  if (message.profile_type === SecurityProfileProfileType.Localhost) {
    word(`${field}.localhost_ref`, message.localhost_ref);
  }
}

function namespaceOptions(
  field: string,
  options: NamespaceOption | null,
  { target }: { readonly target: boolean },
): void {
  if (options === null) return;
  for (const name of ["network", "pid", "ipc"] as const) {
    enumValue(`${field}.${name}`, options[name], NamespaceMode);
    if (options[name] === NamespaceMode.TARGET && !(target && name === "pid")) {
      throw invalidField(`${field}.${name}`, "TARGET is only for the PID namespace of containers");
    }
  }
  if (options.pid === NamespaceMode.TARGET) notEmpty(`${field}.target_id`, options.target_id);
  if (options.userns_options === null) return;
  enumValue(`${field}.userns_options.mode`, options.userns_options.mode, NamespaceMode);
  requestedUsers(options.userns_options, `${field}.userns_options`); // Mappings that a pod can have.
}

function username(field: string, context: LinuxContainerSecurityContext): void {
  if (context.run_as_username === "") return;
  if (context.run_as_user !== null) throw invalidField(field, "cannot be given together with run_as_user");
  word(field, context.run_as_username);
  if (context.run_as_username.includes(":"))
    throw invalidField(field, "contains a colon", context.run_as_username);
}

function capabilities(field: string, { capabilities: given }: LinuxContainerSecurityContext): void {
  if (given === null) return;
  for (const name of ["add_capabilities", "drop_capabilities", "add_ambient_capabilities"] as const) {
    given[name].forEach((capability, index) => {
      const isAll = name === "add_ambient_capabilities" && capability.toUpperCase() === "ALL";
      if (isAll || !/^[A-Za-z_]{1,64}$/.test(capability)) {
        throw invalidField(at(`${field}.${name}`, index), "is not a capability name", capability);
      }
    });
  }
}
