/** `dockershim diff A B`: what two CRI servers answer differently. */
import { connectAsked } from "../answers/asked-server.js";
import { diffPage, diffReport, isIntended } from "../diff/diff-report.js";
import { diffServers } from "../diff/diff-servers.js";
import type { ProcessIo } from "../../cli/process-io.js";

export interface DiffOptions {
  /** `unix:///ABSOLUTE/PATH` of CRI servers, or the path alone. */
  readonly endpoints: readonly [left: string, right: string];
  /** Asks for this pod alone. */
  readonly pod?: { readonly namespace: string; readonly name: string };
  /** Shows intended differences one by one. */
  readonly all: boolean;
  readonly format: "page" | "json";
}

/** The exit code: 0 without differences or with intended ones alone, else 2. Throws what failed. */
export async function runDiff(
  { endpoints, pod, all, format }: DiffOptions,
  { signal, writeOut }: Pick<ProcessIo, "signal" | "writeOut">,
): Promise<number> {
  const left = await connectAsked(endpoints[0], signal);
  try {
    const right = await connectAsked(endpoints[1], signal);
    try {
      const servers = { left, right };
      const comparison = await diffServers(servers, pod === undefined ? {} : { pod }, signal);
      const report = diffReport(servers, comparison, { all });
      writeOut(format === "json" ? `${JSON.stringify(report, null, 2)}\n` : diffPage(report));
      return comparison.differences.every(isIntended) ? 0 : 2;
    } finally {
      right.close();
    }
  } finally {
    left.close();
  }
}
