import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { buffer, text } from "node:stream/consumers";
import { test } from "node:test";
import { dialStreamsOf, streamsSocketSuffix } from "../../../src/play/cri/dial.js";
import { runDial } from "../../../src/forward/dial-command.js";
import { bridge } from "../../../src/forward/forward-command.js";
import { messageOf } from "../../../src/lib/errors.js";
import type { ExecCalls, TakeOutput } from "../../../src/shim/ports/engine.js";

type Engine = Pick<ExecCalls, "createExec" | "startExec" | "inspectExec">;

async function withDirectory(work: (path: (name: string) => string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "forward-"));
  try {
    await work((name) => join(directory, name));
  } finally {
    await rm(directory, { recursive: true });
  }
}

async function listening(server: Server, path: string): Promise<AsyncDisposable> {
  server.listen(path);
  await once(server, "listening");
  return {
    [Symbol.asyncDispose]: async () => {
      server.close();
      await once(server, "close");
    },
  };
}

/** An engine whose exec is `dockershim dial` in this process. */
function engineThatDials(commands: (readonly string[])[] = []): Engine {
  return {
    createExec: (container, { command }) => {
      commands.push([container, ...command]);
      return Promise.resolve("exec1");
    },
    inspectExec: () => Promise.resolve(undefined),
    startExec: () => {
      const [stdin, stdout] = [new PassThrough(), new PassThrough()];
      const address = commands.at(-1)?.at(-1) ?? "";
      let said = "";
      const ended = runDial(address, { stdin, stdout })
        .catch((error: unknown) => (said = `dockershim: ${messageOf(error)}\n`))
        .finally(() => stdout.end());
      const readOutput = async (take: TakeOutput): Promise<void> => {
        for await (const chunk of stdout) await take("stdout", chunk as Buffer, true);
        await ended;
        if (said !== "") await take("stderr", Buffer.from(said), true);
      };
      return Promise.resolve({ input: stdin, readOutput, close: () => stdin.destroy() });
    },
  };
}

/** Leads `path` to `address`; `failures` gets what could not be led on. */
function bridgeServer(engine: Engine, address: string, failures: unknown[] = []): Server {
  return createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    bridge(engine, "shim", ["dockershim", "dial", address], socket, new AbortController().signal).catch(
      (error: unknown) => failures.push(error),
    );
  });
}

test("a forwarded connection keeps all bytes, and the end of the input is passed on alone", () =>
  withDirectory(async (path) => {
    const content = Buffer.alloc(3_000_000, "dockershim ");
    // Answers only after the client's end.
    const echo = createServer({ allowHalfOpen: true }, (socket) => {
      const chunks: Buffer[] = [];
      socket.on("data", (chunk: Buffer) => chunks.push(chunk));
      socket.once("end", () => socket.end(Buffer.concat(chunks)));
    });
    await using _ = await listening(echo, path("cri.sock"));
    const commands: (readonly string[])[] = [];
    const address = `unix://${path("cri.sock")}`;
    await using __ = await listening(bridgeServer(engineThatDials(commands), address), path("here.sock"));
    const client = connect({ path: path("here.sock"), allowHalfOpen: true });
    client.end(content);
    assert.ok((await buffer(client)).equals(content));
    assert.deepEqual(commands, [["shim", "dockershim", "dial", address]]);
  }));

test("a connection that cannot be made in the container ends, with the reason", () =>
  withDirectory(async (path) => {
    const failures: unknown[] = [];
    const server = bridgeServer(engineThatDials(), `unix://${path("missing")}`, failures);
    await using _ = await listening(server, path("here.sock"));
    assert.equal(await text(connect(path("here.sock"))), "");
    assert.match(messageOf(failures[0]), /^in container "shim": dockershim: connect to "unix:.*ENOENT/);
  }));

test("a client that leaves ends the connection in the container", () =>
  withDirectory(async (path) => {
    const arrived = new Promise<Socket>((resolve) => {
      const server = createServer(resolve);
      void listening(server, path("cri.sock")).then((bound) => cleanUp.push(bound));
    });
    const cleanUp: AsyncDisposable[] = [];
    const address = `unix://${path("cri.sock")}`;
    await using _ = await listening(bridgeServer(engineThatDials(), address), path("here.sock"));
    const client = connect(path("here.sock"));
    client.write("hello");
    const far = await arrived;
    await once(far, "readable");
    client.destroy();
    far.resume();
    await once(far, "close");
    for (const each of cleanUp) await each[Symbol.asyncDispose]();
  }));

test("servers of streams are dialled through the socket beside a forwarded one, else from here", () =>
  withDirectory(async (path) => {
    const { signal } = new AbortController();
    const here = createServer((socket) => socket.end("from here"));
    here.listen(0, "127.0.0.1");
    await once(here, "listening");
    const address = here.address();
    assert.ok(typeof address === "object" && address !== null);
    const target = { host: "127.0.0.1", port: address.port };
    const dial = dialStreamsOf(path("cri.sock"));
    assert.equal(await text(await dial(target, signal)), "from here");
    const beside = createServer((socket) => {
      socket.once("data", (line) => socket.end(`through: ${line.toString()}`));
    });
    {
      await using _ = await listening(beside, path(`cri.sock${streamsSocketSuffix}`));
      assert.equal(await text(await dial(target, signal)), `through: 127.0.0.1:${target.port}\n`);
    }
    assert.equal(await text(await dial(target, signal)), "from here");
    here.close();
    await once(here, "close");
  }));
