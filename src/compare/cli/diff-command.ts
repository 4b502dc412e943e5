/** `dockershim diff A B`: what two CRI servers answer differently. */
import { connectAsked } from "../asked-server.js";
import { diffPage, diffReport, isIntended } from "../diff-report.js";
import { diffServers } from "../diff-servers.js";
import type { DiffOptions } from "./diff-commands.js";

export interface DiffIo {
  writeOut(text: string): void;
  /** Ends the command. */
  readonly signal: AbortSignal;
}

/** The exit code: 0 without differences or with intended ones alone, else 2. Throws what failed. */
export async function runDiff({ endpoints, pod, all, format }: DiffOptions, io: DiffIo): Promise<number> {
  const { signal } = io;
  const left = await connectAsked(endpoints[0], signal);
  try {
    const right = await connectAsked(endpoints[1], signal);
    try {
      const servers = { left, right };
      const comparison = await diffServers(servers, pod === undefined ? {} : { pod }, signal);
      const report = diffReport(servers, comparison, { all });
      io.writeOut(format === "json" ? `${JSON.stringify(report, null, 2)}\n` : diffPage(report));
      return comparison.differences.every(isIntended) ? 0 : 2;
    } finally {
      right.close();
    }
  } finally {
    left.close();
  }
}
