/** What was probably meant by words that kubectl, docker or podman take, and this program does not. */
import { durationKind } from "../shim/config/value-kinds.js";
import { ShimError } from "../lib/errors.js";
import { nearestName } from "../shim/config/given.js";

const kustomize = 'build the directory first: "kubectl kustomize DIR | dockershim play -"';
const inCommand = "the CRI has none for exec";

/** By command and flag. */
const flagHints: ReadonlyMap<string, string> = new Map([
  ["play --file", "did you mean --filename? Files are arguments, too"],
  ["play -k", kustomize],
  ["play --kustomize", kustomize],
  ["play -w", "did you mean --watch or --wait?"],
  ["play -r", "did you mean --recursive or --replicas?"],
  ["play --replace", "play replaces what has changed by itself"],
  ["play --force", "play replaces what has changed by itself"],
  [
    "play --publish",
    "ports of the node are those of hostPort, and of Services of type NodePort or LoadBalancer",
  ],
  ["play --status", 'did you mean "dockershim play ls"?'],
  ["play --scale", "did you mean --replicas?"],
  ["play --timeout", "did you mean --wait=TIME?"],
  ["ps --filter", "did you mean --selector?"],
  ["ps --format", "did you mean --output?"],
  ["ps --show-labels", '"dockershim pod describe" prints labels'],
  ["ps --sort-by", "pods are sorted by their names"],
  ["exec -e", `${inCommand}: "-- env NAME=VALUE COMMAND"`],
  ["exec --env", `${inCommand}: "-- env NAME=VALUE COMMAND"`],
  ["exec -w", `${inCommand}: "-- sh -c 'cd DIRECTORY; COMMAND'"`],
  ["exec --workdir", `${inCommand}: "-- sh -c 'cd DIRECTORY; COMMAND'"`],
  ["exec -u", `${inCommand}: the command runs as the user of the container`],
  ["exec --user", `${inCommand}: the command runs as the user of the container`],
  ["events --for", 'pods are arguments: "dockershim pod events NAME"'],
  ["top --no-stream", "top prints once"],
  ["down --force", "did you mean --grace-period=0?"],
  ["down --now", "did you mean --grace-period=1?"],
  ["down -t", "did you mean --grace-period?"],
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
  exec: ["sh", "shell", "debug"],
  cp: ["copy"],
  "port-forward": ["forward", "port"],
};

const played = 'use "dockershim play FILE"';
const again = 'use "dockershim pod down NAME", and "dockershim play FILE" again';
const otherVerbs: ReadonlyMap<string, string> = new Map([
  ...["play", "apply", "create", "start", "kube", "run"].map((verb) => [verb, played] as const),
  ...["restart", "rollout"].map((verb) => [verb, again] as const),
  ["scale", 'use "dockershim play --replicas NAME=NUMBER FILE"'],
]);

/** For a command of `dockershim pod` that does not exist. Empty when nothing is like it. */
export function podVerbHint(given: string, verbs: readonly string[]): string {
  const answer = otherVerbs.get(given);
  if (answer !== undefined) return `: ${answer}`;
  const verb =
    Object.keys(verbsOfOthers).find((name) => verbsOfOthers[name]?.includes(given)) ??
    nearestName(given, verbs);
  return verb === undefined ? "" : `: did you mean "dockershim pod ${verb}"?`;
}

const takesFiles = 'play takes files: "dockershim play FILE"';
const removesFiles = 'play takes files: "dockershim play --down FILE"';
const playWords: ReadonlyMap<string, string> = new Map([
  ...["kube", "up", "apply", "create", "start", "run"].map((word) => [word, takesFiles] as const),
  ...["down", "delete", "rm", "stop"].map((word) => [word, removesFiles] as const),
  ...["restart", "rollout", "scale"].map((word) => [word, otherVerbs.get(word) ?? ""] as const),
  ...["ps", "get"].map((word) => [word, 'use "dockershim pod ps"'] as const),
  ["logs", 'use "dockershim pod logs POD"'],
  ...["status", "list"].map((word) => [word, 'use "dockershim play ls"'] as const),
]);

/** For commands of kubectl, docker or podman that are given to the program itself. */
export function otherCommand(word: string): string | undefined {
  const verbs = ["ps", "logs", "exec", "attach", "port-forward", "cp", "describe", "events", "top", "wait"];
  const isOfPods = verbs.includes(word) || Object.values(verbsOfOthers).some((words) => words.includes(word));
  if (["down", "delete", "rm"].includes(word)) return 'use "dockershim play --down FILE"';
  if (word === "up") return played;
  const answer = otherVerbs.get(word);
  if (answer !== undefined && word !== "play") return answer;
  return isOfPods ? podVerbHint(word, verbs).slice(2) : undefined;
}

/** For what is given to `dockershim play` in place of a file that is there. */
export function playFileHint(name: string): string | undefined {
  if (/^https?:\/\//.test(name)) return `play reads no addresses: "curl -fsSL ${name} | dockershim play -"`;
  return playWords.get(name);
}
