/** A Map, or what stands for several. */
export interface Variables {
  get(name: string): string | undefined;
}

/** `$(NAME)` as the kubelet: an unknown reference stays, `$$` is one `$`, and any other `$` is itself. */
export function expandVariables(text: string, variables: Variables): string {
  let result = "";
  let position = 0;
  for (;;) {
    const dollar = text.indexOf("$", position);
    if (dollar === -1 || dollar === text.length - 1) return result + text.slice(position);
    result += text.slice(position, dollar);
    const next = text[dollar + 1];
    if (next === "$") {
      result += "$";
      position = dollar + 2;
      continue;
    }
    const end = next === "(" ? text.indexOf(")", dollar + 2) : -1;
    if (end === -1) {
      result += text.slice(dollar, dollar + 2);
      position = dollar + 2;
      continue;
    }
    const name = text.slice(dollar + 2, end);
    result += variables.get(name) ?? `$(${name})`;
    position = end + 1;
  }
}
