import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  detectIptables,
  type IptablesMode,
  parseIptablesVersion,
  restoreWaitFlags,
  waitFlags,
} from "../../../../src/network/iptables/detect.js";
import { fakeCommands, never, type Answer } from "./fake-commands.js";

const kube = (lines: number): string => `*nat\n${":KUBE-X - [0:0]\n".repeat(lines)}COMMIT\n`;

/** A host with these programs; all others are not installed. */
function host(programs: Readonly<Record<string, Answer>>): ReturnType<typeof fakeCommands> {
  return fakeCommands(({ program }) => programs[program] ?? "notFound");
}

const nft = { stdout: "iptables v1.8.9 (nf_tables)\n" };
const legacy = { stdout: "iptables v1.8.9 (legacy)\n" };
const both = { "iptables-nft": nft, "iptables-legacy": legacy };

describe("detectIptables()", () => {
  const inLegacy = { "iptables-legacy-save": { stdout: kube(2) } };
  const more = { "iptables-legacy-save": { stdout: kube(1) }, "ip6tables-nft-save": { stdout: kube(3) } };
  const noModule = { "iptables-legacy-save": { exitCode: 3, stderr: "no such module" } };
  const inNft = { "iptables-nft-save": { stdout: kube(9) } };
  const rows: readonly (readonly [
    name: string,
    mode: IptablesMode,
    programs: Readonly<Record<string, Answer>>,
    expected: readonly [backend: string, suffix: string, differs: boolean],
  ])[] = [
    ["plain iptables without chains of pods", "auto", { iptables: legacy, ...both }, ["legacy", "", false]],
    ["the backend with them", "auto", { iptables: nft, ...both, ...inLegacy }, ["legacy", "-legacy", true]],
    ["the plain name for that backend", "auto", { iptables: nft, ...both, ...inNft }, ["nft", "", false]],
    ["the backend with more of them", "auto", { iptables: legacy, ...both, ...more }, ["nft", "-nft", true]],
    ["none that the kernel does not have", "auto", { iptables: nft, ...noModule }, ["nft", "", false]],
    ["the configured one", "legacy", { iptables: nft, ...both, ...inNft }, ["legacy", "-legacy", true]],
  ];
  for (const [name, mode, programs, expected] of rows) {
    test(`takes ${name}`, async () => {
      const { version, suffix, differsFromDefault } = await detectIptables(mode, never, host(programs));
      assert.deepEqual([version.backend, suffix, differsFromDefault], expected);
    });
  }

  for (const [name, mode, programs] of [
    ["nothing is installed", "auto", {}],
    ["the configured backend is not installed", "nft", { iptables: legacy }],
  ] as const) {
    test(`is unavailable when ${name}`, async () => {
      await assert.rejects(detectIptables(mode, never, host(programs)), { kind: "unavailable" });
    });
  }

  test("names no table, for that would make the kernel load it", async () => {
    const run = host({ iptables: nft, "iptables-legacy-save": {}, "ip6tables-legacy-save": {} });
    await detectIptables("auto", never, run);
    const saves = run.ran.filter(({ program }) => program.endsWith("-save"));
    assert.equal(saves.length, 4);
    for (const { words } of saves) assert.deepEqual(words, []);
  });
});

describe("parseIptablesVersion()", () => {
  for (const [output, backend, parts] of [
    ["iptables v1.8.9 (nf_tables)\n", "nft", [1, 8, 9]],
    ["iptables v1.8.4 (legacy)\n", "legacy", [1, 8, 4]],
    ["iptables v1.6.1\n", "legacy", [1, 6, 1]],
    ["iptables v1.4\n", "legacy", [1, 4, 0]],
  ] as const) {
    test(`reads ${JSON.stringify(output)}`, () => {
      const version = parseIptablesVersion(output);
      assert.equal(version?.backend, backend);
      assert.deepEqual(version.parts, parts);
    });
  }
});

describe("flags of waiting", () => {
  for (const [version, wait, restore] of [
    ["1.4.19", "", ""],
    ["1.4.20", "-w", ""],
    ["1.4.22", "-w 5", ""],
    ["1.6.1", "-w 5 -W 100000", ""],
    ["1.6.2", "-w 5 -W 100000", "-w 5 -W 100000"],
    ["1.8.7", "-w 5 -W 100000", "-w 5 -W 100000"],
    ["1.8.8", "-w 5", "-w 5"],
    ["1.10.0", "-w 5", "-w 5"],
  ] as const) {
    test(`of ${version} are "${wait}", for restore "${restore}"`, () => {
      const parsed = parseIptablesVersion(`iptables v${version}`)!;
      assert.equal(waitFlags(parsed).join(" "), wait);
      assert.equal(restoreWaitFlags(parsed).join(" "), restore);
    });
  }
});
