/** POSIX paths as text: plans are pure and cannot use node:path, which follows the system of the developer. */
import { invalidField } from "../../domain/field-errors.js";

/**
 * Without empty and `.` parts; `..` parts stay. Absolute stays absolute, relative stays relative; `/` and
 * `""` stay.
 */
export function normalizePath(path: string): string {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  return (path.startsWith("/") ? "/" : "") + parts.join("/");
}

/** An absolute path as Go's `filepath.Clean` has it: `..` parts take the part before with them. */
export function cleanPath(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
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

/**
 * Absolute path of a container's log, `""` for none. Without a log directory, or without a log path in it,
 * there is no log: dockershim took the directory itself for the log, and could then remove neither. A path
 * that leaves the directory is refused, because root later replaces and deletes what is there.
 */
export function containerLogPath(logDirectory: string, logPath: string): string {
  if (logDirectory === "" || logPath === "") return "";
  if (climbs(logPath)) throw invalidField("config.log_path", "leaves the log directory", logPath);
  const path = `${normalizePath(logDirectory)}/${normalizePath(`/${logPath}`).slice(1)}`;
  if (logPath.endsWith("/") || !isBelow(path, logDirectory))
    throw invalidField("config.log_path", "names a directory, not a file", logPath);
  return path.replace(/^\/\//, "/");
}
