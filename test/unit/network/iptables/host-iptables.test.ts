import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { HostIptables } from "../../../../src/network/iptables/host-iptables.js";
import type { IptablesMode } from "../../../../src/network/iptables/detect.js";
import { hostNatTables, removeNatRules } from "../../../../src/network/cni/nat-rules.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { fakeCommands, never, type Answer, type RecordedCommand } from "./fake-commands.js";

const nft = { stdout: "iptables v1.8.9 (nf_tables)\n" };
const legacy = { stdout: "iptables v1.8.9 (legacy)\n" };

function setUp(
  programs: Readonly<Record<string, Answer | ((command: RecordedCommand) => Answer)>>,
  mode: IptablesMode = "auto",
) {
  const run = fakeCommands((command) => {
    const answer = command.program in programs ? programs[command.program] : "notFound";
    return typeof answer === "function" ? answer(command) : answer;
  });
  const log = recordingLog();
  return { run, log, host: new HostIptables({ mode, log, run }) };
}

const suffixes = async (host: HostIptables): Promise<readonly string[]> =>
  (await host.everywhere(never)).map(({ tools }) => tools.suffix);

describe("HostIptables", () => {
  test("finds it out anew after a failure", async () => {
    let installed = false;
    const { host } = setUp({ iptables: () => (installed ? nft : "notFound") });
    await assert.rejects(host.chosen(never), { kind: "unavailable", message: "iptables is not installed" });
    installed = true;
    assert.equal((await host.chosen(never)).tools.version.backend, "nft");
  });

  for (const [what, mode, programs, expected] of [
    ["one, when plain iptables is the chosen one", "nft", { iptables: nft }, [""]],
    ["both, when it is not", "legacy", { iptables: nft, "iptables-legacy": legacy }, ["-legacy", ""]],
    ["plain iptables, when the chosen one is not installed", "legacy", { iptables: nft }, [""]],
    ["the chosen one, when there is no plain iptables", "legacy", { "iptables-legacy": legacy }, ["-legacy"]],
    ["none, when there is no iptables at all", "auto", {}, []],
  ] as const) {
    test(`rules of others may be in: ${what}`, async () => {
      assert.deepEqual(await suffixes(setUp(programs, mode).host), expected);
    });
  }

  test("does not take iptables for missing when the helper that starts programs was lost", async () => {
    const lost = new ShimError("unavailable", "lost", { helperLost: true });
    const { host } = setUp({ iptables: nft, "iptables-legacy": () => assert.fail(lost) }, "legacy");
    await assert.rejects(host.everywhere(never), (error) => error === lost);
  });
});

describe("removeNatRules() on the tables of the host", () => {
  const id = "a".repeat(64);
  const rule = `-A POSTROUTING -s 10.1.0.2/32 -m comment --comment "name: \\"demo\\" id: \\"${id}\\"" -j CNI-${"0".repeat(24)}`;
  const save = { stdout: `*nat\n:CNI-${"0".repeat(24)} - [0:0]\n${rule}\nCOMMIT\n` };

  test("waits for another program that holds the lock, and tries again", async () => {
    let refusals = 2;
    const { host, run } = setUp({
      iptables: nft,
      "iptables-save": save,
      "iptables-restore": () =>
        refusals-- > 0 ? { exitCode: 4, stderr: "Another app is currently holding the xtables lock" } : {},
    });
    await removeNatRules(hostNatTables(host), new Set([id]), never);
    const restores = run.ran.filter(({ program }) => program === "iptables-restore");
    assert.equal(restores.length, 3);
    assert.ok(restores.every(({ words }) => words.includes("-w")));
  });

  test("looks in both backends when plain iptables, which plugins call, is not the chosen one", async () => {
    const { host, run } = setUp(
      {
        iptables: nft,
        "iptables-legacy": legacy,
        "iptables-save": save,
        "iptables-legacy-save": save,
        "iptables-restore": {},
        "iptables-legacy-restore": {},
      },
      "legacy",
    );
    await removeNatRules(hostNatTables(host), new Set([id]), never);
    assert.deepEqual(
      run.ran.map(({ program }) => program).filter((program) => program.endsWith("-restore")),
      ["iptables-legacy-restore", "iptables-restore"],
    );
  });
});
