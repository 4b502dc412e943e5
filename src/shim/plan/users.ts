/** User and groups of a container: from the CRI's fields to `Config.User` and `HostConfig.GroupAdd`. */
import { ShimError } from "../../lib/errors.js";
import { SupplementalGroupsPolicy, type Int64Value } from "../../domain/cri.js";
import type { ResolvedImageUser } from "../../domain/image-users.js";
import { unlessEmpty } from "../../domain/create-body.js";
import { invalidField, unsupportedField } from "../../domain/field-errors.js";
import { securityContextField } from "./security-options.js";

export interface UserRequest {
  readonly run_as_user: Int64Value | null;
  readonly run_as_group: Int64Value | null;
  /** Not in sandbox requests. */
  readonly run_as_username?: string;
  readonly supplemental_groups: readonly string[];
  readonly supplemental_groups_policy: SupplementalGroupsPolicy;
}

/** What to look up in the image's user database before planning. */
export interface ImageUserNeed {
  /** The user in Docker's form; undefined is the image's own `Config.User`. */
  readonly user: string | undefined;
}

/**
 * Docker adds the groups of the image's /etc/group only when no group is named, and takes the primary group
 * from /etc/passwd then. So the files must be read beforehand for two wishes: Merge with a named group
 * (Docker would leave the memberships out), and Strict without one (Docker would add them).
 */
export function imageUserNeed(request: UserRequest | null | undefined): ImageUserNeed | undefined {
  if (request === null || request === undefined) return undefined;
  const user = userText(request);
  const strict = request.supplemental_groups_policy === SupplementalGroupsPolicy.Strict;
  const namesGroup = request.run_as_group !== null;
  return strict === namesGroup ? undefined : { user };
}

export interface UserFields {
  readonly User?: string;
  readonly GroupAdd?: readonly string[];
}

/**
 * `imageUser` answers `imageUserNeed`: undefined when there was no need, or when the image has no such user.
 * When the image's files are too large, Merge means what Docker does: no groups of the image beside a named
 * one.
 */
export function userFields(
  request: UserRequest | null | undefined,
  resolved: ResolvedImageUser | "tooLarge" | undefined,
): UserFields {
  if (request === null || request === undefined) return {};
  const user = userText(request);
  const group = request.run_as_group?.value;
  const need = imageUserNeed(request);
  if (need !== undefined && resolved === undefined) throw unknownUser(need);
  const strict = request.supplemental_groups_policy === SupplementalGroupsPolicy.Strict;
  const isTooLarge = resolved === "tooLarge";
  if (isTooLarge && strict) {
    const reason = "the user's group is in /etc/passwd of the image, which is too large: name run_as_group";
    throw unsupportedField(`${securityContextField}.supplemental_groups_policy`, reason, "Strict");
  }
  const imageUser = isTooLarge ? undefined : resolved;
  // Given by the check above wherever the two lines below use it.
  const primary = group ?? (strict && imageUser !== undefined ? String(imageUser.gid) : undefined);
  const account = user ?? (strict && imageUser !== undefined ? String(imageUser.uid) : undefined);
  const memberships = strict || group === undefined ? [] : (imageUser?.supplementaryGroups ?? []);
  const groups = [...request.supplemental_groups, ...memberships.map(String).filter((gid) => gid !== group)];
  return fields(account === undefined || primary === undefined ? account : `${account}:${primary}`, groups);
}

/** The same for the pause container, without the image's files: no process of the pod runs as its user. */
export function sandboxUserFields(request: UserRequest | null | undefined): UserFields {
  if (request === null || request === undefined) return {};
  const user = userText(request);
  const group = request.run_as_group?.value;
  return fields(
    user === undefined || group === undefined ? user : `${user}:${group}`,
    request.supplemental_groups,
  );
}

function fields(user: string | undefined, groups: readonly string[]): UserFields {
  const added = unlessEmpty([...new Set(groups)]);
  return {
    ...(user === undefined ? {} : { User: user }),
    ...(added === undefined ? {} : { GroupAdd: added }),
  };
}

/** `1000` or `name`; undefined when the request leaves the user to the image. */
export function userText(request: UserRequest): string | undefined {
  const name = request.run_as_username ?? "";
  const user = name === "" ? request.run_as_user?.value : name;
  if (user === undefined && request.run_as_group !== null)
    throw invalidField(`${securityContextField}.run_as_group`, "runAsGroup is specified without a runAsUser");
  return user;
}

function unknownUser(need: ImageUserNeed): ShimError {
  const user = need.user === undefined ? "the image's user" : `user ${JSON.stringify(need.user)}`;
  return new ShimError(
    "invalid",
    `unable to find ${user}: no matching entries in the image's passwd and group files`,
  );
}
