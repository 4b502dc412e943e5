/** The writer of container logs. */
import type { Lifetime } from "../lib/lifetime.js";
import type { Logger } from "../lib/log.js";
import type { Config } from "../config/resolve.js";
import { ContainerLogWriters } from "../logs/container-log-writers.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import type { Stores } from "./stores.js";

/** Writes nothing before the first container is observed. */
export function createContainerLogs(
  { containerLogFormat: format, adoptedLogs: adopted }: Config,
  { logRecords: records }: Stores,
  engine: Engine,
  host: () => HostAccess,
  log: Logger,
  lifetime: Lifetime,
): ContainerLogWriters {
  const writers = new ContainerLogWriters({ engine, host, records, format, adopted, log });
  lifetime.onClose("container logs", () => writers.stop());
  return writers;
}
