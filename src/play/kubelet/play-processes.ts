/** Processes of play on this host, as `PodOwner` marks them. */
import { bootId } from "../../lib/linux/network-namespaces.js";
import { isAlive, markOf } from "../../lib/linux/process-mark.js";
import type { PlayProcesses } from "./pod-owner.js";

const mark = /^(\d{1,10})-(\d{1,20})-([0-9a-f-]*)$/;

export function playProcesses(): PlayProcesses {
  const self = markOf(process.pid);
  return {
    // Without /proc, as on macOS, there is none.
    own: self === undefined ? undefined : `${self.pid}-${self.startTime}-${bootId()}`,
    isAlive: async (text) => {
      const [, pid, startTime = "", boot] = mark.exec(text) ?? [];
      return boot === bootId() && (await isAlive({ pid: Number(pid), startTime }));
    },
    describe: (text) => `process ${mark.exec(text)?.[1] ?? text}`,
  };
}
