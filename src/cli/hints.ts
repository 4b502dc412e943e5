/** What was probably meant by words that kubectl, docker or podman take, and this program does not. */
import { durationKind } from "../shim/config/value-kinds.js";
import { ShimError } from "../lib/errors.js";
import { nearestName } from "../shim/config/given.js";

const files = 'files are arguments: "dockershim play FILE"';

/** By command and flag. */
const flagHints: ReadonlyMap<string, string> = new Map([
  ["play -f", `${files}; logs: --follow`],
  ["play --file", files],
  ["play --filename", files],
  ["play -w", "did you mean --watch or --wait?"],
  ["play -r", "did you mean --recursive or --replicas?"],
  ["ps --watch", 'did you mean "dockershim pod events --follow"?'],
]);

export function flagHint(command: string, flag: string): string | undefined {
  return flagHints.get(`${command} ${flag}`);
}

/** `--wait 20s FILE`: the value of a flag whose value may be missing stands behind "=". Throws `invalid`. */
export function refuseTimeAfter(flag: string, next: string | undefined): void {
  if (next === undefined || !isTime(next)) return;
  const file = `a file of this name is "./${next}"`;
  throw new ShimError(
    "invalid",
    `flag "${flag}": ${JSON.stringify(next)} is not a file: did you mean ${flag}=${next}? (${file})`,
  );
}

function isTime(text: string): boolean {
  try {
    durationKind().parse(text);
    return true;
  } catch {
    return false; // It may be a file.
  }
}

const verbsOfOthers: Readonly<Record<string, readonly string[]>> = {
  ps: ["ls", "list", "get"],
  down: ["rm", "remove", "delete", "stop", "kill"],
  logs: ["log"],
  describe: ["inspect", "show"],
  top: ["stats"],
  exec: ["run", "sh", "shell"],
  cp: ["copy"],
  "port-forward": ["forward", "port"],
};

/** For a command of `dockershim pod` that does not exist. Empty when nothing is like it. */
export function podVerbHint(given: string, verbs: readonly string[]): string {
  const verb =
    Object.keys(verbsOfOthers).find((name) => verbsOfOthers[name]?.includes(given)) ??
    nearestName(given, verbs);
  return verb === undefined ? "" : `: did you mean "dockershim pod ${verb}"?`;
}
