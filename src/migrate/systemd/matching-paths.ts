/** Wildcards in paths of unit files, as glob(7): `*`, `?` and `[…]` within one component. */
import { join } from "node:path/posix";
import type { NodeFiles } from "../files/node-files.js";

/** Paths that exist, sorted. A path without wildcards is answered as it is, there or not. */
export async function matchingPaths(files: NodeFiles, pattern: string): Promise<readonly string[]> {
  if (!/[*?[]/.test(pattern)) return [pattern];
  let paths: readonly string[] = ["/"];
  for (const part of pattern.split("/").filter((one) => one !== "")) {
    const next = paths.map(async (path): Promise<readonly string[]> => {
      if (!/[*?[]/.test(part)) return [join(path, part)];
      const expression = expressionOf(part);
      const names = await files.names(path);
      return names.filter((name) => expression.test(name)).map((name) => join(path, name));
    });
    paths = (await Promise.all(next)).flat();
  }
  const kinds = await Promise.all(paths.map((path) => files.kindOf(path)));
  return paths.filter((_path, index) => kinds[index] !== "absent");
}

/** A leading dot is matched by a dot alone. */
function expressionOf(part: string): RegExp {
  const source = part.replaceAll(/\[[^\]]+\]|[^]/g, (token) => {
    if (token === "*") return ".*";
    if (token === "?") return ".";
    if (token.length === 1) return token.replace(/[.+^${}()|[\]\\/-]/, "\\$&");
    return token.replace(/^\[!/, "[^").replaceAll("\\", "\\\\");
  });
  try {
    return new RegExp(`^${part.startsWith(".") ? "" : "(?!\\.)"}${source}$`, "s");
  } catch {
    // A range such as [z-a] matches nothing.
    return /^(?!)/;
  }
}
