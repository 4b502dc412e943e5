import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LegacyHostPorts } from "../../../../src/network/hostport/legacy-host-ports.js";
import { Conntrack } from "../../../../src/network/hostport/conntrack.js";
import { HostIptables } from "../../../../src/network/iptables/host-iptables.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { fakeCommands, never, type Answer, type RecordedCommand } from "../iptables/fake-commands.js";
import { golden, webId, webMappings } from "./golden.js";

const web = { sandboxId: webId, namespace: "default", name: "web", portMappings: webMappings };
const other = { sandboxId: "other", namespace: "default", name: "other", portMappings: [] };

/** A host whose IPv4 table is `save()`; IPv6 has none. */
function setUp(save: () => string, restore: (command: RecordedCommand) => Answer = () => undefined) {
  const run = fakeCommands((command) => {
    if (command.program === "iptables-save") return { stdout: save() };
    if (command.program === "iptables") return { stdout: "iptables v1.8.9 (nf_tables)" };
    if (command.program === "ip6tables-save") return { exitCode: 3, stderr: "Table does not exist" };
    return restore(command);
  });
  const log = recordingLog();
  const iptables = new HostIptables({ mode: "nft", log, run });
  const conntrack = new Conntrack(log, run);
  return { run, log, ports: new LegacyHostPorts({ iptables, conntrack, log }) };
}

describe("LegacyHostPorts", () => {
  test("runs nothing for pods of a node on which there are none", async () => {
    const { ports, run } = setUp(() => "*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n");
    await ports.start(never);
    assert.equal(ports.present, false);
    const before = run.ran.length;
    await ports.remove(web, never);
    assert.equal(run.ran.length, before);
  });

  test("removes the sandbox's chains and makes the kernel forget its UDP flows", async () => {
    const { ports, run } = setUp(() => golden.natTableAfterAdd);
    await ports.start(never);
    await ports.remove(web, never);
    const restores = run.ran.filter(({ program }) => program === "iptables-restore");
    assert.equal(restores.length, 1);
    assert.equal(restores[0]?.input?.match(/^-X /gm)?.length, 3);
    assert.deepEqual(run.lines().at(-1), "conntrack -D -p udp --orig-port-dst 18053 --reply-src 10.180.0.5");
    assert.equal(ports.present, true);
  });

  test("does not look again when the last of them is gone", async () => {
    const { ports } = setUp(() => golden.natTableAfterRemove);
    await ports.start(never);
    await ports.remove({ ...other, sandboxId: "x", name: "three" }, never, []);
    assert.equal(ports.present, false);
  });

  test("works a removal out anew when the table has changed meanwhile", async () => {
    let save = golden.natTableAfterAdd;
    let tries = 0;
    const { ports, run } = setUp(
      () => save,
      ({ program }) => {
        if (program !== "iptables-restore" || ++tries > 1) return undefined;
        save = golden.natTableAfterRemove;
        return { exitCode: 1, stderr: "line 2 failed" };
      },
    );
    await ports.start(never);
    await ports.remove(web, never);
    assert.equal(run.ran.filter(({ program }) => program === "iptables-restore").length, 1);
  });

  test("fails when the table refuses again and again", async () => {
    const { ports } = setUp(
      () => golden.natTableAfterAdd,
      ({ program }) => (program === "iptables-restore" ? { exitCode: 1, stderr: "no" } : undefined),
    );
    await ports.start(never);
    await assert.rejects(ports.remove(web, never), { kind: "unknown" });
  });

  test("looks at the first tear-down when the start could not", async () => {
    let fails = true;
    const { ports, log, run } = setUp(() => {
      if (fails) throw new Error("busy");
      return golden.natTableAfterAdd;
    });
    await ports.start(never);
    assert.equal(ports.present, true);
    assert.equal(log.linesAt("warn").length, 1);
    fails = false;
    await ports.remove(web, never);
    assert.ok(run.ran.some(({ program }) => program === "iptables-restore"));
  });
});
