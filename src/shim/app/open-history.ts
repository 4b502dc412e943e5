/** The history of pods, for `dockershim why`: written from the ends of calls and from changes of the read model. */
import { History } from "../../history/history.js";
import { historyDirectory } from "../../history/history-files.js";
import { HistoryWriter, lastWriteMs } from "../../history/history-writer.js";
import type { Lifetime } from "../../lib/lifetime.js";
import type { Logger } from "../../lib/log.js";
import type { Nanoseconds } from "../../lib/time.js";
import type { Config } from "../config/resolve.js";
import type { EndedCallSubscriber } from "../ports/ended-calls.js";
import type { ModelChange, ReadModel } from "../state/read-model.js";

export type HistoryConfig = Pick<Config, "historyMaxBytes" | "historyMaxAgeMs" | "stateDir" | "readOnly">;

/** Undefined when it is off, as for a server that only reads. */
export async function openHistory(
  { historyMaxBytes: bytes, historyMaxAgeMs: ageMs, stateDir, readOnly }: HistoryConfig,
  model: Pick<ReadModel, "onChange" | "container">,
  log: Logger,
  lifetime: Lifetime,
): Promise<EndedCallSubscriber | undefined> {
  if (bytes === 0 || readOnly) return undefined;
  const directory = historyDirectory(stateDir);
  const knownMs = await lastWriteMs(directory);
  const writer = new HistoryWriter({ directory, bytes, ageMs, log });
  const history = new History((record) => {
    writer.add(record);
  });
  const unsubscribe = model.onChange((change) => {
    noteEnd(history, change, model, knownMs);
  });
  lifetime.onClose("history of pods", () => {
    unsubscribe();
    return writer.close();
  });
  return history;
}

/** Also of containers that ended while no server ran, which the first inspect tells. */
function noteEnd(
  history: History,
  { id, sandboxId, sandbox, before, after }: ModelChange,
  model: Pick<ReadModel, "container">,
  knownMs: number,
): void {
  if (after === undefined || after.state.running || after.state.finished === 0n) return;
  const { started, finished, exitCode, oomKilled, error } = after.state;
  const endedAtMs = milliseconds(finished);
  if (before === undefined ? endedAtMs <= knownMs : before.state.finished === finished) return;
  const { pod } = sandbox ?? {};
  const name = id === sandboxId ? undefined : model.container(id)?.identity.name;
  history.containerEnded({
    ...{ endedAtMs, exitCode, oomKilled, error },
    ranMs: started === 0n ? 0 : endedAtMs - milliseconds(started),
    subject: {
      ...(pod === undefined ? {} : { pod: `${pod.namespace}/${pod.name}`, podUid: pod.uid }),
      sandboxId,
      ...(id === sandboxId ? {} : { containerId: id }),
      ...(name === undefined ? {} : { containerName: name }),
    },
  });
}

function milliseconds(time: Nanoseconds): number {
  return Number(time / 1_000_000n);
}
