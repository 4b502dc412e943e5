import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Conntrack } from "../../../../src/network/hostport/conntrack.js";
import type { PortMapping } from "../../../../src/domain/sandbox.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { fakeCommands, never } from "../iptables/fake-commands.js";

const udp: PortMapping = { protocol: "udp", containerPort: 53, hostPort: 5353, hostIp: "" };
const tcp: PortMapping = { ...udp, protocol: "tcp" };
const addresses = ["10.1.0.2", "fd00::2"];

describe("Conntrack", () => {
  test("forgets flows to UDP ports of a new pod, in each family of its addresses", async () => {
    const run = fakeCommands();
    await new Conntrack(recordingLog(), run).forgetBefore(
      [tcp, udp, { ...udp, hostPort: 0 }],
      addresses,
      never,
    );
    assert.deepEqual(run.lines(), [
      "conntrack -D -p udp --orig-port-dst 5353",
      "conntrack -D -p udp --orig-port-dst 5353 -f ipv6",
    ]);
  });

  test("keeps to the host address of a mapping, and to its family", async () => {
    const run = fakeCommands();
    const conntrack = new Conntrack(recordingLog(), run);
    await conntrack.forgetBefore(
      [
        { ...udp, hostIp: "192.0.2.1" },
        { ...udp, hostIp: "::" },
      ],
      addresses,
      never,
    );
    assert.deepEqual(run.lines(), [
      "conntrack -D -p udp --orig-port-dst 5353 --orig-dst 192.0.2.1",
      "conntrack -D -p udp --orig-port-dst 5353 -f ipv6",
    ]);
  });

  test("takes it for success that there was nothing to forget, and logs other failures", async () => {
    const log = recordingLog();
    const replies = ["0 flow entries have been deleted.", "Operation not permitted"];
    const conntrack = new Conntrack(
      log,
      fakeCommands(() => ({ exitCode: 1, stderr: replies.shift() ?? "" })),
    );
    await conntrack.forgetUdp("ipv4", { hostPort: 1 }, never);
    assert.deepEqual(log.lines, []);
    await conntrack.forgetUdp("ipv4", { hostPort: 1 }, never);
    assert.deepEqual(
      log.lines.map(({ level }) => level),
      ["warn"],
    );
  });
});
