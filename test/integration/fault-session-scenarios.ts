/** The sessions of Exec and Attach, as one call each: opened by a client, which takes part in them until they have ended. */
import assert from "node:assert/strict";
import { ContainerState } from "../../src/domain/cri.js";
import { inspectContainer } from "../support/docker.js";
import { isEngineElsewhere } from "../support/engine-host.js";
import { openWebSocket, type WebSocketClient } from "../support/streaming-client.js";
import { until } from "../support/wait.js";
import { type Act, type Scene, runningCommands } from "./fault-scenarios.js";

const channel = { stdin: 0, stdout: 1, error: 3, resize: 4 } as const;
const size = JSON.stringify({ Width: 120, Height: 40 });

interface Client {
  readonly url: string;
  readonly timeoutMs: number;
  readonly tty: boolean;
  /** Called with the output each time that there is more; true when the client has seen enough. */
  readonly take: (output: string, client: WebSocketClient) => boolean;
}

/**
 * As calls that fail: `FAILED` when the stream of errors says so, `DEADLINE_EXCEEDED` when the client has lost its patience
 * and left, as the connection does then.
 */
async function takePart({ url, timeoutMs, tty, take }: Client): Promise<void> {
  const client = await openWebSocket(url, "v4.channel.k8s.io");
  const send = (to: number, text: string): void =>
    client.ws.send(Buffer.concat([Buffer.of(to), Buffer.from(text)]));
  if (tty) send(channel.resize, size);
  const end = Date.now() + timeoutMs;
  const connection = { isClosed: false };
  void client.closed.then(() => (connection.isClosed = true));
  try {
    while (Date.now() < end) {
      const status = client.channel(channel.error);
      if (status !== "") {
        const { status: result, code, message } = JSON.parse(status) as Readonly<Record<string, unknown>>;
        if (result === "Success") return;
        assert.equal(code, 500, status);
        assert.match(
          String(message),
          /^Internal error occurred: error (executing command in|attaching to) container: ./,
        );
        throw new Error("FAILED");
      }
      if (connection.isClosed) throw new Error("closed without a status");
      if (take(client.channel(channel.stdout), client)) return;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    throw new Error("DEADLINE_EXCEEDED");
  } finally {
    client.ws.terminate();
    await client.closed;
  }
}

/** The command ends at a line of input, and never by the end of its input. */
function execSession(tty: boolean): (scene: Scene) => Promise<Act> {
  return async ({ bed, cri, containerId }) => {
    const marker = bed.newName("m");
    const script = `echo run >> /tmp/${marker}; echo done; until read line; do sleep 1; done`;
    let calls = 0;
    const run = async ({ timeoutMs }: { readonly timeoutMs: number }): Promise<void> => {
      calls += 1;
      const { url } = await cri.Exec({
        ...{ container_id: containerId, cmd: ["sh", "-c", script] },
        ...{ tty, stdin: true, stdout: true, stderr: !tty },
      });
      let isAnswered = false;
      const take = (output: string, { ws }: WebSocketClient): boolean => {
        if (!isAnswered && output.includes("done")) {
          isAnswered = true;
          ws.send(Buffer.concat([Buffer.of(channel.stdin), Buffer.from("\n")]));
        }
        return false;
      };
      await takePart({ url, timeoutMs, tty, take });
      assert.ok(isAnswered, "all output came before the status");
    };
    return Promise.resolve({
      call: run,
      again: () => run({ timeoutMs: 30_000 }),
      holds: async () => {
        const commands = await runningCommands(containerId);
        // docs/run/remote.md: those of an engine elsewhere stay.
        if (isEngineElsewhere) return;
        assert.deepEqual(
          commands.filter((command) => command.includes(marker)),
          [],
          "no process is left",
        );
        const { stdout } = await cri.ExecSync({
          container_id: containerId,
          cmd: ["sh", "-c", `cat /tmp/${marker} 2>/dev/null | wc -l`],
          timeout: "10",
        });
        assert.ok(Number(stdout.toString()) <= calls, `${stdout.toString()} runs for ${calls} calls`);
      },
    });
  };
}

/** Leaves as soon as it has seen what the container says over and over. */
function attachSession(tty: boolean): (scene: Scene) => Promise<Act> {
  return async ({ bed, cri, proxy, pod }) => {
    const name = bed.newName("c");
    const id = await pod.start({
      ...{ metadata: { name, attempt: 0 }, log_path: `${name}.log`, tty },
      command: ["sh", "-c", "trap 'exit 0' TERM; while :; do echo tick; sleep 0.2; done"],
    });
    const before = await inspectContainer(id);
    const run = async ({ timeoutMs }: { readonly timeoutMs: number }): Promise<void> => {
      const { url } = await cri.Attach({ container_id: id, tty, stdin: false, stdout: true, stderr: !tty });
      const seen = proxy.requests.length;
      // Who leaves at once sends no size.
      const isSized = (): boolean =>
        !tty || proxy.requests.slice(seen).some(({ path }) => path.includes(`${id}/resize`));
      await takePart({ url, timeoutMs, tty, take: (output) => output.includes("tick") && isSized() });
    };
    return {
      call: run,
      again: () => run({ timeoutMs: 30_000 }),
      holds: async () => {
        const sessions = proxy.openRequests.filter(({ path }) => path.includes(`${id}/attach`));
        assert.deepEqual(sessions, [], "no client is attached");
        assert.equal((await inspectContainer(id))?.State.Pid, before?.State.Pid, "it runs on");
        assert.equal((await pod.containerStatus(id)).state, ContainerState.CONTAINER_RUNNING);
      },
      end: async () => {
        await cri.RemoveContainer({ container_id: id });
        await until("it is gone", async () => (await inspectContainer(id)) === undefined);
      },
    };
  };
}

export const sessionScenarios: Readonly<Record<string, (scene: Scene) => Promise<Act>>> = {
  "Exec session": execSession(false),
  "Exec session with a terminal": execSession(true),
  "Attach session": attachSession(false),
  "Attach session with a terminal": attachSession(true),
};
