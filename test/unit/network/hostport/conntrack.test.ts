import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Conntrack } from "../../../../src/network/hostport/conntrack.js";
import type { PortMapping } from "../../../../src/domain/sandbox.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { fakeCommands, never } from "../iptables/fake-commands.js";
import { pluck } from "../../../support/pluck.js";

const udp: PortMapping = { protocol: "udp", containerPort: 53, hostPort: 5353, hostIp: "" };
const tcp: PortMapping = { ...udp, protocol: "tcp" };

describe("Conntrack", () => {
  const ofHost = { ...udp, hostIp: "192.0.2.1" };
  const ofIpv6 = { ...udp, hostIp: "::" };
  const rows: readonly (readonly [name: string, mappings: readonly PortMapping[], flags: string[]])[] = [
    ["forgets flows to UDP ports of a pod, by family", [tcp, udp, { ...udp, hostPort: 0 }], ["", " -f ipv6"]],
    ["keeps to host address and family", [ofHost, ofIpv6], [" --orig-dst 192.0.2.1", " -f ipv6"]],
  ];
  for (const [name, mappings, flags] of rows) {
    test(name, async () => {
      const run = fakeCommands();
      await new Conntrack(recordingLog(), run).forgetBefore(mappings, ["10.1.0.2", "fd00::2"], never);
      const lines = flags.map((flag) => `conntrack -D -p udp --orig-port-dst 5353${flag}`);
      assert.deepEqual(run.lines(), lines);
    });
  }

  test("takes it for success that there was nothing to forget, and logs other failures", async () => {
    const log = recordingLog();
    const replies = ["0 flow entries have been deleted.", "Operation not permitted"];
    const run = fakeCommands(() => ({ exitCode: 1, stderr: replies.shift() ?? "" }));
    const conntrack = new Conntrack(log, run);
    await conntrack.forgetUdp("ipv4", { hostPort: 1 }, never);
    assert.deepEqual(log.lines, []);
    await conntrack.forgetUdp("ipv4", { hostPort: 1 }, never);
    assert.deepEqual(pluck(log.lines, "level"), ["warn"]);
  });
});
