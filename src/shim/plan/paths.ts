/** Paths as text. The plans are pure, and the node's paths are POSIX paths even where this program is developed on another system. */

/** Without empty and `.` parts; `..` parts stay. Absolute stays absolute, relative stays relative; `/` and `""` stay. */
export function normalizePath(path: string): string {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  return (path.startsWith("/") ? "/" : "") + parts.join("/");
}

/** Whether a part of the path is `..`. */
export function climbs(path: string): boolean {
  return path.split("/").includes("..");
}

/** Whether absolute `path` is strictly below absolute `directory`, both read as text (`..` is never below). */
export function isBelow(path: string, directory: string): boolean {
  const base = normalizePath(directory);
  return (
    !climbs(path) &&
    normalizePath(path).startsWith(base === "/" ? "/" : `${base}/`) &&
    normalizePath(path) !== base
  );
}
