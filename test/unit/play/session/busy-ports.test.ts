import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { test } from "node:test";
import { isPortBusy, refuseBusyPorts } from "../../../../src/play/session/busy-ports.js";
import { writePodRecord } from "../../../../src/play/node/pod-record.js";
import { makeFixture, podWith } from "../fake-cri.js";

const { signal } = new AbortController();
const spec =
  "  containers: [{name: a, image: busybox:1, ports: [{containerPort: 80, hostPort: 8080}, {containerPort: 81}]}]";

test("refuseBusyPorts() names pod and port when a program of this host listens on it", async () => {
  const { deps } = makeFixture();
  const asked: number[] = [];
  const isBusy = ({ port }: { port: number }): Promise<boolean> => {
    asked.push(port);
    return Promise.resolve(true);
  };
  await assert.rejects(
    refuseBusyPorts([await podWith(spec)], { ...deps, isBusy }, signal),
    /^ShimError: play pod "default\/web" \(.*\): port 8080\/TCP of this host: a program listens on it; "ss -lntp sport = :8080"/,
  );
  assert.deepEqual(asked, [8080]);
  await refuseBusyPorts([await podWith(spec)], { ...deps, isBusy: () => Promise.resolve(false) }, signal);
});

test("refuseBusyPorts() leaves the port of a pod that play has made to the CRI server", async () => {
  const { deps, kubelet, clock } = makeFixture();
  const manifest = await podWith(spec);
  kubelet.apply(manifest, { failFast: true });
  await clock.advance(0);
  await writePodRecord(manifest, deps);
  await refuseBusyPorts([manifest], { ...deps, isBusy: () => Promise.resolve(true) }, signal);
  await kubelet[Symbol.asyncDispose]();
});

test("isPortBusy() tells listening programs, by protocol and address", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  try {
    assert.equal(await isPortBusy({ port, protocol: "TCP", address: "127.0.0.1" }), true);
    assert.equal(await isPortBusy({ port, protocol: "TCP", address: "" }), true);
    assert.equal(await isPortBusy({ port, protocol: "TCP", address: "127.0.0.2" }), false);
    assert.equal(await isPortBusy({ port, protocol: "SCTP", address: "" }), false);
  } finally {
    server.close();
  }
  const socket = createSocket("udp4").bind(0);
  await once(socket, "listening");
  const udp = socket.address().port;
  assert.equal(await isPortBusy({ port: udp, protocol: "UDP", address: "" }), true);
  socket.close();
  await once(socket, "close");
  assert.equal(await isPortBusy({ port: udp, protocol: "UDP", address: "" }), false);
});
