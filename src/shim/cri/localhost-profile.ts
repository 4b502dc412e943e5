import { ShimError } from "../../lib/errors.js";
import type { SecurityProfile } from "../../domain/cri.js";
import type { HostAccess } from "../ports/host.js";
import { localhostSeccompPath } from "../plan/seccomp.js";

/** A seccomp profile is a few dozen kilobytes; the engine takes it in a request body. */
const limitBytes = 1024 * 1024;

/** The text of the seccomp profile that a security context names by path; undefined when it names none. */
export async function readLocalhostProfile(
  security:
    | {
        readonly seccomp: SecurityProfile | null;
        readonly seccomp_profile_path: string;
        readonly privileged: boolean;
      }
    | null
    | undefined,
  host: Pick<HostAccess, "readNodeFile">,
): Promise<string | undefined> {
  const path = localhostSeccompPath(security ?? undefined);
  if (path === undefined) return undefined;
  try {
    return await host.readNodeFile(path, limitBytes);
  } catch (error) {
    throw new ShimError(
      "invalid",
      `cannot load seccomp profile "${path}": ${ShimError.from(error).message}`,
      { path },
    );
  }
}
