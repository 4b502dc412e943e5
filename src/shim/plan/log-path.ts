/** Where a container's log appears on the node. */
import { climbs, isBelow, normalizePath } from "./paths.js";
import { invalidField } from "../domain/field-errors.js";

/**
 * Absolute path of the log, `""` for none. Without a log directory, or without a log path in it, there is no log: the
 * directory itself must never be taken for the log (dockershim did, and could then remove neither). A path that would
 * leave the directory is refused, because the log path is later replaced and deleted by root.
 */
export function containerLogPath(logDirectory: string, logPath: string): string {
  if (logDirectory === "" || logPath === "") return "";
  if (climbs(logPath)) throw invalidField("config.log_path", "leaves the log directory", logPath);
  const path = `${normalizePath(logDirectory)}/${normalizePath(`/${logPath}`).slice(1)}`;
  if (logPath.endsWith("/") || !isBelow(path, logDirectory)) {
    throw invalidField("config.log_path", "names a directory, not a file", logPath);
  }
  return path.replace(/^\/\//, "/");
}
