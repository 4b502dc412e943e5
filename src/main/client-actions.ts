/** The commands that are clients of a CRI server, each by a late import. */
import type { PlayActions } from "../play/cli/play-commands.js";
import type { PodActions } from "../play/pod/cli/pod-commands.js";
import { abortWhenInterrupted, interrupted } from "../cli/process-io.js";

export const clientActions: PlayActions & PodActions = {
  pod: async (request, endpoint) => {
    abortWhenInterrupted();
    const { runPod } = await import("../play/pod/cli/pod-command.js");
    const { stdin, stdout, stderr } = process;
    return runPod(request, endpoint, { stdin, stdout, stderr, signal: interrupted.signal });
  },
  play: async (options) => {
    abortWhenInterrupted();
    const { runPlay } = await import("../play/cli/play-command.js");
    const { stdout, stderr } = process;
    // Node.js opens standard input when it is first asked for, and a play of files never asks.
    const stdin = { [Symbol.asyncIterator]: () => process.stdin[Symbol.asyncIterator]() };
    return runPlay(
      { ...options, endpoint: options.endpoint.path },
      { stdout, stderr, stdin, signal: interrupted.signal },
    );
  },
};
