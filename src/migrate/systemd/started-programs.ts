/** Which programs the command of a unit starts, also by a shell, a container or another launcher. Pure. */
import { basename } from "node:path/posix";

/** Programs that start another one, which they get as arguments or in a text. */
const launcher =
  /^(?:(?:ba|da|a|z)?sh|busybox|env|nice|ionice|chrt|taskset|numactl|nsenter|chroot|timeout|sudo|unshare|flock|setsid|nohup|hyperkube|docker|podman|nerdctl|ctr)$/;
const keyword = /^(?:exec|start|run|then|do)$/;
/** What else is before the name of a program where it has no path. */
const before = /^$|^-a$|^-?[a-z]?\d+$|^\w+=|hyperkube/;

/** Names of programs; the first is the command's own. Of texts as a shell reads them only what stands there as it is. */
export function startedPrograms(words: readonly { readonly text: string }[]): readonly string[] {
  const [first = "", ...rest] = words.map(({ text }) => text);
  const own = basename(first);
  if (!launcher.test(own)) return [own];
  const names = [own];
  let previous = own === "hyperkube" ? own : "";
  for (const word of rest.flatMap((text) => text.replaceAll(/[;&|()"'`]+/g, " ; ").split(/\s+/))) {
    const isData = /^\/(?:etc|var|run|proc|sys)\//.test(word) && !word.includes("/bin");
    const isPath = word.startsWith("/") && !isData && !/[=:]/.test(word);
    const isFirst = before.test(previous) || keyword.test(previous);
    const isName = isFirst && /^\w[\w.-]*$/.test(word) && !keyword.test(word);
    if (isPath || isName) names.push(basename(word));
    previous = word === ";" || word === "-c" ? "" : word;
  }
  return names;
}
