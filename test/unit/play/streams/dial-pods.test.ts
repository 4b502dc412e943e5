import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import type { Duplex } from "node:stream";
import { type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { type Dial, dialFromHere } from "../../../../src/play/cri/dial.js";
import { dialPods } from "../../../../src/play/streams/dial-pods.js";
import { NamespaceMode, PodSandboxState } from "../../../../src/domain/cri.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { fakePod } from "../../../fakes/streaming-sessions.js";
import { startStreamingBed } from "../../../support/streaming-bed.js";

const never = new AbortController().signal;
const web = { host: "10.0.0.1", port: 80 };

/** A server in a pod that says nothing by itself, and its address here. */
async function listen(t: TestContext): Promise<number> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (data) => socket.end(`heard ${data.toString()}`));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** Two sandboxes: one with the addresses 10.0.0.1 and fd00::1, one on the host network. */
async function bed(t: TestContext, inPod: number | undefined) {
  const streaming = await startStreamingBed();
  t.after(() => streaming[Symbol.asyncDispose]());
  const ended = new AbortController();
  t.after(() => ended.abort());
  const asked: string[] = [];
  const hold = { on: false, list: Promise.resolve(), status: Promise.resolve() };
  const ready = new Set(["web", "host"]);
  /** To the server of the streams. */
  const servers: Duplex[] = [];
  const dial: Dial = async (address, signal) => {
    if (address.host.startsWith("10."))
      throw new ShimError("unavailable", `dialled ${address.host} from here`);
    const socket = await dialFromHere(address, signal);
    servers.push(socket);
    return socket;
  };
  const session = fakePod(async () => {
    if (hold.on) await new Promise(() => undefined);
    if (inPod === undefined) throw new ShimError("unavailable", "connection refused");
    const socket = connect({ host: "127.0.0.1", port: inPod, allowHalfOpen: true });
    await once(socket, "connect");
    return socket;
  }, []);
  const client = {
    listPodSandboxes: async () => {
      asked.push("list");
      await hold.list;
      return [...ready].map((id) => ({ id, state: PodSandboxState.SANDBOX_READY }));
    },
    podSandboxStatus: async (id: string) => {
      if (id === "host") await hold.status;
      return {
        network: id === "web" ? { ip: "10.0.0.1", additional_ips: [{ ip: "fd00::1" }] } : null,
        linux: {
          namespaces: { options: { network: id === "web" ? NamespaceMode.POD : NamespaceMode.NODE } },
        },
      };
    },
    portForwardUrl: (id: string, [port]: readonly number[]) => {
      asked.push(`${id} ${port}`);
      return Promise.resolve(streaming.server.offer(session));
    },
  } as unknown as Parameters<typeof dialPods>[0]["client"];
  return { dial: dialPods({ client, dial, ended: ended.signal }), asked, servers, hold, ready };
}

test("dialPods() connects to a pod by its address before the pod says anything", async (t) => {
  const { dial, asked } = await bed(t, await listen(t));
  const socket = await dial(web, never);
  socket.write("me");
  const [answer] = (await once(socket, "data")) as [Buffer];
  assert.equal(answer.toString(), "heard me");
  socket.destroy();
  (await dial({ host: "fd00::1", port: 81 }, never)).destroy();
  assert.deepEqual(asked, ["list", "web 80", "web 81"]); // Addresses are looked up once.
});

test("dialPods() reaches the engine's host through a pod on its network", async (t) => {
  const { dial, asked } = await bed(t, await listen(t));
  (await dial({ host: "127.0.0.1", port: 80 }, never)).destroy();
  assert.deepEqual(asked, ["list", "host 80"]);
});

test("dialPods() tells why a pod does not answer", async (t) => {
  const { dial } = await bed(t, undefined);
  await assert.rejects(dial({ host: "10.0.0.1", port: 80 }, never), (error) => {
    assert.ok(error instanceof ShimError);
    assert.match(error.message, /^dial 10\.0\.0\.1:80: .*connection refused/);
    return error.kind === "unavailable";
  });
});

test("dialPods() leaves addresses of no pod to this host", async (t) => {
  const port = await listen(t);
  const { dial, asked } = await bed(t, undefined);
  const socket = await dial({ host: "localhost", port }, never);
  socket.destroy();
  assert.deepEqual(asked, ["list"]);
});

test("dialPods() finds a pod while another look-up begins", async (t) => {
  const { dial, asked, hold } = await bed(t, await listen(t));
  const [list, status] = [gateAndOpener(), gateAndOpener()];
  hold.status = status.gate;
  const first = dial(web, never);
  await setImmediate(); // It has found the address, and goes on with the other sandbox.
  hold.list = list.gate;
  const second = assert.rejects(dial({ host: "10.0.0.9", port: 80 }, never), /dialled 10\.0\.0\.9/);
  status.open();
  (await first).destroy();
  list.open();
  await second;
  assert.deepEqual(asked, ["list", "list", "web 80"]);
});

test("dialPods() does not take the address of a pod that is gone for one of this host's network", async (t) => {
  const { dial, ready } = await bed(t, await listen(t));
  (await dial(web, never)).destroy();
  ready.delete("web");
  await dial({ host: "10.0.0.9", port: 80 }, never).catch(() => undefined); // Looks all up again.
  await assert.rejects(dial(web, never), {
    kind: "unavailable",
    message: "dial 10.0.0.1:80: no pod has this address now",
  });
});

test("dialPods() uses a connection to the server again, and another one when it is lost", async (t) => {
  const { dial, asked, servers } = await bed(t, await listen(t));
  const [first, second] = [await dial(web, never), await dial(web, never)];
  for (const [socket, word] of [
    [second, "two"],
    [first, "one"],
  ] as const) {
    socket.write(word);
    const [answer] = (await once(socket, "data")) as [Buffer];
    assert.equal(answer.toString(), `heard ${word}`);
    socket.destroy();
  }
  assert.deepEqual(asked, ["list", "web 80"]);
  const kept = await dial(web, never);
  servers.forEach((server) => server.destroy());
  await assert.rejects(once(kept, "close"), /has ended the connection/);
  (await dial(web, never)).destroy();
  assert.deepEqual(asked, ["list", "web 80", "web 80"]);
});

test("dialPods() gives up a connection through which nothing comes", async (t) => {
  const { dial, asked, hold } = await bed(t, await listen(t));
  (await dial(web, never)).destroy();
  hold.on = true;
  const limit = new AbortController();
  const dialling = dial(web, limit.signal);
  limit.abort(new ShimError("timeout", "too late"));
  await assert.rejects(dialling, /too late/);
  hold.on = false;
  (await dial(web, never)).destroy();
  assert.deepEqual(asked, ["list", "web 80", "web 80"]);
});

function gateAndOpener(): { readonly gate: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { gate, open };
}
