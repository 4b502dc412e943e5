import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { letIptablesSeeBridges, warnOfStrictFiltering } from "../../../src/network/host-sysctls.js";
import { ShimError } from "../../../src/lib/errors.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { fakeCommands, never, type Answer } from "./iptables/fake-commands.js";

const ip4 = "net/bridge/bridge-nf-call-iptables";
const ip6 = "net/bridge/bridge-nf-call-ip6tables";
const strict = "net/ipv4/conf/all/rp_filter";

type Settings = Readonly<Record<string, string>>;

async function setUp(settings: Settings, module: { answer?: Answer; settings?: Settings } = {}) {
  const { path: sysctlRoot, [Symbol.asyncDispose]: remove } = await temporaryDirectory();
  const make = async (made: Settings): Promise<void> => {
    for (const [name, text] of Object.entries(made)) {
      await mkdir(dirname(join(sysctlRoot, name)), { recursive: true });
      await writeFile(join(sysctlRoot, name), text);
    }
  };
  await make(settings);
  const log = recordingLog();
  const run = fakeCommands(async () => {
    await make(module.settings ?? {});
    return module.answer;
  });
  return {
    ...{ options: { log, run, sysctlRoot }, log, run },
    read: (setting: string) => readFile(join(sysctlRoot, setting), "utf8"),
    warnings: () => log.linesAt("warn").map(({ fields }) => fields["setting"]),
    [Symbol.asyncDispose]: remove,
  };
}

describe("letIptablesSeeBridges()", () => {
  test("loads the module, and lets both iptables see bridged traffic", async () => {
    await using at = await setUp({}, { settings: { [ip4]: "0\n", [ip6]: "0\n" } });
    await letIptablesSeeBridges(at.options, never);
    assert.deepEqual(at.run.lines(), ["modprobe br-netfilter"]);
    assert.deepEqual([(await at.read(ip4)).trim(), (await at.read(ip6)).trim()], ["1", "1"]);
    assert.deepEqual(at.warnings(), []);
  });

  test("starts no program where the module is loaded", async () => {
    await using at = await setUp({ [ip4]: "0\n", [ip6]: "0\n" });
    await letIptablesSeeBridges(at.options, never);
    assert.deepEqual(at.run.lines(), []);
    assert.deepEqual([(await at.read(ip4)).trim(), (await at.read(ip6)).trim()], ["1", "1"]);
  });

  test("warns of a kernel without bridge filtering, once, and goes on", async () => {
    await using at = await setUp({});
    await letIptablesSeeBridges(at.options, never);
    assert.deepEqual(at.warnings(), [ip4]);
    await assert.rejects(at.read(ip4), { code: "ENOENT" });
  });

  for (const answer of ["notFound", { exitCode: 1 }] as const) {
    test(`goes on when modprobe answers ${JSON.stringify(answer)}`, async () => {
      await using at = await setUp({}, { answer, settings: { [ip4]: "0" } });
      await letIptablesSeeBridges(at.options, never);
      assert.equal(await at.read(ip4), "1");
      assert.deepEqual(at.warnings(), []);
    });
  }

  test("ends with its signal when modprobe hangs", async () => {
    await using at = await setUp({});
    const stop = new AbortController();
    const run = fakeCommands(() => {
      stop.abort(new ShimError("timeout", "too late"));
      throw new Error("killed");
    });
    await assert.rejects(letIptablesSeeBridges({ ...at.options, run }, stop.signal), { kind: "timeout" });
    assert.deepEqual(at.warnings(), []);
  });
});

for (const [value, expected] of Object.entries({ "1\n": [strict], "2\n": [], "0\n": [] })) {
  test(`warnOfStrictFiltering() warns ${expected.length === 0 ? "not " : ""}of ${value.trim()}`, async () => {
    await using at = await setUp({ [strict]: value });
    await warnOfStrictFiltering(at.options);
    assert.deepEqual(at.warnings(), expected);
  });
}
