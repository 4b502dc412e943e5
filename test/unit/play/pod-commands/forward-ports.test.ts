import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo } from "node:net";
import { test } from "node:test";
import { dialFromHere } from "../../../../src/play/cri/dial.js";
import { forwardPorts } from "../../../../src/play/pod-commands/forward-ports.js";

const deps = {
  dial: dialFromHere,
  url: () => new Promise<string>(() => undefined),
  report: (line: string) => assert.fail(line),
};

test("forwardPorts() names the address that is in use, and leaves none open", async () => {
  const taken = createServer();
  taken.listen(0, "127.0.0.2");
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  const forwarding = forwardPorts(
    [{ local: port, remote: 80 }],
    ["127.0.0.1", "127.0.0.2"],
    deps,
    new AbortController().signal,
  );
  await assert.rejects(forwarding, { message: `listen on 127.0.0.2:${port}: the port is in use` });
  taken.close();
  const socket = connect({ host: "127.0.0.1", port });
  const [error] = (await once(socket, "error")) as [NodeJS.ErrnoException];
  assert.equal(error.code, "ECONNREFUSED");
});

test("forwardPorts() ends with its signal, also while a connection waits for the server", async () => {
  const stop = new AbortController();
  const said: string[] = [];
  const url = (): Promise<string> =>
    new Promise((_, reject) => stop.signal.addEventListener("abort", () => reject(new Error("aborted"))));
  const forwarding = forwardPorts(
    [{ local: 0, remote: 80 }],
    ["127.0.0.1"],
    { ...deps, url, report: (line) => said.push(line) },
    stop.signal,
  );
  while (said.length === 0) await new Promise((resolve) => setImmediate(resolve));
  const socket = connect({ host: "127.0.0.1", port: Number(/:(\d+) /.exec(said[0] ?? "")?.[1]) });
  await once(socket, "connect");
  const closed = once(socket.resume(), "close");
  stop.abort();
  await forwarding;
  await closed;
});
