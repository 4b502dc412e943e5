import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { parseNetworkList } from "../../../../src/network/libcni/configuration.js";
import { ConfigurationDirectory } from "../../../../src/network/cni/configuration-directory.js";
import { ManualClock } from "../../../fakes/manual-clock.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { until } from "../../../fakes/turns.js";
import { FakePlugins } from "./fake-plugins.js";
import { golden } from "./golden.js";
import { pluck } from "../../../support/pluck.js";

let fake: FakePlugins;
let directory: string;
let clock: ManualClock;
let log: ReturnType<typeof recordingLog>;
let events: (() => void)[];
let watches: number;
let source: ConfigurationDirectory;

beforeEach(async () => {
  fake = await FakePlugins.create("bridge", "portmap");
  directory = await mkdtemp(join(tmpdir(), "cni-conf-"));
  clock = new ManualClock();
  log = recordingLog();
  events = [];
  watches = 0;
  source = new ConfigurationDirectory({
    directory,
    invoker: fake.invoker(),
    log,
    clock,
    watchDirectory: (_directory, _options, listener) => {
      watches += 1;
      const notify = (): void => listener("change", "a.conf");
      events.push(notify);
      return Object.assign(new EventEmitter(), {
        close: () => void events.splice(events.indexOf(notify), 1),
      });
    },
  });
});
afterEach(async () => {
  await source.stop();
  await rm(directory, { recursive: true, force: true });
  await fake[Symbol.asyncDispose]();
});

const list = (name: string, ...types: readonly string[]): string => {
  const plugins = (types.length === 0 ? ["bridge"] : types).map((type) => ({ type }));
  return JSON.stringify({ name, cniVersion: "0.4.0", plugins });
};
const single = (name: string): string => JSON.stringify({ name, cniVersion: "0.4.0", type: "bridge" });
const put = (name: string, text: string): Promise<void> => writeFile(join(directory, name), text);
const network = (): string | undefined => source.state().network?.name;
const problem = (): string => source.state().problem ?? "";
const skipped = (): readonly string[] =>
  log.lines
    .filter(({ message }) => message.startsWith("skipping"))
    .map(({ fields }) => String(fields["reason"]));

describe("the choice", () => {
  const b = { "b.conf": single("b") };
  type Row = readonly [rule: string, files: Readonly<Record<string, string>>, chosen: string | undefined];
  const rows: readonly Row[] = [
    ["names are sorted by bytes", { "9-x.conf": single("x"), "10-b.conflist": list("b") }, "b"],
    ["upper case comes before lower case", { "a.conf": single("a"), "B.conf": single("B") }, "B"],
    ["a .conf file is a single plugin", { "a.conf": single("a") }, "a"],
    ["a .json file is a single plugin", { "a.json": single("a") }, "a"],
    ["other extensions are passed by", { "a.conf.bak": single("a"), "b.conflist.swp": list("b") }, undefined],
    ["a list in a .conf file is skipped", { "a.conf": list("a"), ...b }, "b"],
    ["a single plugin in a .conflist file is skipped", { "a.conflist": single("a"), ...b }, "b"],
    ["broken JSON is skipped", { "a.conf": "{", ...b }, "b"],
    ["a list with a missing plugin is skipped", { "a.conflist": list("a", "no"), ...b }, "b"],
    ["a list with a bad name is skipped", { "a.conflist": list("a/b"), ...b }, "b"],
    ["an empty list is skipped", { "a.conflist": '{"name":"a","plugins":[]}', ...b }, "b"],
    ["a list without plugins needs drop-ins", { "a.conflist": '{"name":"a"}', ...b }, "b"],
    ["the version must be the plugin's", { "a.conf": single("a").replace("0.4.0", "0.2.0") }, undefined],
    ["an empty directory has no network", {}, undefined],
  ];
  for (const [rule, files, chosen] of rows) {
    test(rule, async () => {
      for (const [name, text] of Object.entries(files)) await put(name, text);
      await source.start();
      assert.equal(network(), chosen);
      if (chosen === undefined) assert.match(problem(), /^no (valid )?networks found in /);
    });
  }

  type Recorded = { files: { of: string; name: string; content: object }[] };
  for (const { of, name, content } of golden<Recorded>("files-without-version.json").files) {
    test(`a file without a version has 0.1.0: ${of}`, async () => {
      const versions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0"];
      for (const type of ["flannel", "portmap", "multus", "weave-net", "bridge", "host-local", "cilium-cni"])
        await fake.install(type, versions);
      await put(name, JSON.stringify(content));
      await source.start();
      assert.equal(problem(), "");
      assert.equal(source.state().network?.cniVersion, "0.1.0");
    });
  }

  const loopback = '{"cniVersion":"0.3.1","name":"lo","type":"loopback"}';
  test("a file of loopback alone is no network, installed or not, and the state says why", async () => {
    await fake.install("loopback");
    await put("99-loopback.conf", loopback);
    await put("99-missing.conflist", '{"name":"lo","plugins":[{"type":"loopback"}]}');
    await source.start();
    const own = /99-loopback\.conf: its only plugin is "loopback", which gives pods no address; /;
    assert.match(problem(), new RegExp(`${own.source}.*99-missing\\.conflist`));
  });

  test("a file of loopback alone stands in no other's way, behind it without a word", async () => {
    await fake.install("loopback");
    await put("10-a.conf", single("a"));
    await put("99-loopback.conf", loopback);
    await source.start();
    assert.deepEqual([network(), skipped()], ["a", []]);
    await put("00-loopback.conf", loopback);
    await source.refresh();
    assert.deepEqual([network(), skipped().length], ["a", 1]);
    await put("10-a.conflist", list("b", "loopback", "bridge"));
    await source.refresh();
    assert.equal(network(), "a");
    await rm(join(directory, "10-a.conf"));
    await source.refresh();
    assert.equal(network(), "b", "loopback beside another plugin");
  });

  test("drop-in plugins are appended in order of their names, also for the cache", async () => {
    await put("a.conflist", list("a"));
    await mkdir(join(directory, "a"));
    const dropIns = { "20.conf": "bridge", "10.conf": "portmap", "05.json": "ignored" };
    for (const [name, type] of Object.entries(dropIns)) {
      await put(`a/${name}`, JSON.stringify({ type, order: name }));
    }
    await source.start();
    const { network: found } = source.state();
    assert.deepEqual(found && pluck(found.plugins, "type"), ["bridge", "portmap", "bridge"]);
    assert.match(found?.text ?? "", /"order":"10\.conf".*"order":"20\.conf"/);
    await put("a.conflist", list("a").replace("{", '{"loadOnlyInlinedPlugins":true,'));
    await source.refresh();
    assert.equal(source.state().network?.plugins.length, 1);
  });

  test("a missing directory has no network until it is made", async () => {
    await rm(directory, { recursive: true });
    await source.start();
    assert.equal(problem(), `no networks found in ${directory}`);
    assert.equal(events.length, 0);
    await mkdir(directory);
    await put("a.conf", single("a"));
    clock.pass(5000);
    await until("the network is there", () => network() === "a");
    assert.equal(events.length, 1, "the new directory is watched");
  });
});

test("a broken file is reported with its position once per content, also behind the chosen one", async () => {
  await put("a.conf", '{\n  "name": oops\n}');
  await put("b.conf", single("b"));
  await put("c.conf", "[");
  await source.start();
  assert.equal(network(), "b");
  assert.equal(skipped().length, 2);
  assert.match(skipped()[0]!, /a\.conf": line 2, column 11: expected a value, found "o"$/);
  assert.match(skipped()[1]!, /c\.conf": line 1, column 2/);
  await put("d.conf", single("d"));
  await source.refresh();
  assert.equal(skipped().length, 2, "nothing new about the old files");
  await put("a.conf", '{\n\n  "name": oops\n}');
  await source.refresh();
  assert.equal(skipped().length, 3);
  const skippedFiles = pluck(source.describe()["skippedFiles"] as readonly { path: string }[], "path");
  assert.deepEqual(skippedFiles, [join(directory, "a.conf"), join(directory, "c.conf")]);
});

test("when the last valid file goes, the state is a problem and the last good list is kept for tear-down", async () => {
  await put("a.conf", single("a"));
  await source.start();
  await rm(join(directory, "a.conf"));
  await source.refresh();
  assert.equal(problem(), `no networks found in ${directory}`);
  assert.equal(source.lastGood()?.name, "a");
  await put("a.conf", "{");
  await source.refresh();
  assert.match(problem(), /^no valid networks found in .*a\.conf": line 1, column 2/);
  await put("a.conf", single("again"));
  await source.refresh();
  assert.equal(network(), "again");
});

test("plugins are asked for their versions once per binary, not once per look", async () => {
  await put("a.conflist", list("a", "bridge", "portmap", "bridge"));
  await source.start();
  await source.refresh();
  await put("b.conf", single("b"));
  await source.refresh();
  const asked = async (): Promise<readonly string[]> =>
    (await fake.calls("VERSION")).map(({ plugin }) => plugin).sort();
  assert.deepEqual(await asked(), ["bridge", "portmap"]);
  await fake.install("bridge", ["0.3.1"]);
  await source.refresh();
  assert.deepEqual(await asked(), ["bridge", "bridge", "portmap"]);
  assert.match(problem(), /plugin bridge does not support config version "0\.4\.0" \(only 0\.3\.1\)/);
});

test("a missing binary is a problem that ends when it is installed", async () => {
  await put("a.conflist", list("a", "bridge", "firewall"));
  await source.start();
  assert.match(problem(), /failed to find plugin "firewall" in path \[/);
  await fake.install("firewall");
  clock.pass(5000);
  await until("the network is there", () => network() === "a");
  await rm(join(fake.binDir, "firewall"));
  clock.pass(5000);
  await until("the network is gone", () => network() === undefined);
  assert.match(problem(), /failed to find plugin "firewall"/);
});

const helpers: readonly (readonly [string, object])[] = [
  ["ipam", { ipam: { type: "helper" } }],
  ["delegate", { delegate: { type: "helper" } }],
  ["ipam of a delegate", { delegate: { type: "bridge", ipam: { type: "helper" } } }],
];
for (const [what, members] of helpers) {
  test(`a missing ${what} plugin is a problem that ends when it is installed`, async () => {
    await put("a.conf", JSON.stringify({ name: "a", cniVersion: "0.4.0", type: "bridge", ...members }));
    await source.start();
    assert.match(problem(), /failed to find plugin "helper" in path \[/);
    await fake.install("helper");
    clock.pass(5000);
    await until("the network is there", () => network() === "a");
    assert.ok((await fake.calls("VERSION")).every(({ plugin }) => plugin !== "helper"));
  });
}

describe("cniVersions", () => {
  const offering = (cniVersions: readonly string[]): string =>
    JSON.stringify({ name: "a", cniVersions, plugins: [{ type: "bridge" }, { type: "portmap" }] });

  test("the newest that all plugins speak is used, for DEL as for ADD", async () => {
    await fake.install("portmap", ["0.4.0", "1.0.0"]);
    await put("a.conflist", offering(["1.1.0", "0.4.0", "1.0.0"]));
    await source.start();
    const { network: found } = source.state();
    assert.equal(found?.cniVersion, "1.0.0");
    assert.equal(parseNetworkList(found.text, "cache").cniVersion, "1.0.0");
  });

  test("without one that all plugins speak there is no network, and the reason says so", async () => {
    await fake.install("bridge", ["0.4.0"]);
    await fake.install("portmap", ["1.0.0"]);
    await put("a.conflist", offering(["0.4.0", "1.0.0"]));
    await source.start();
    assert.match(problem(), /its plugins \[bridge portmap\] have no version in common$/);
    await put("a.conflist", offering(["1.1.0", "1.0.0"]));
    await source.refresh();
    assert.match(problem(), /bridge does not support config version "1.1.0" or "1.0.0" \(only 0.4.0\)/);
  });
});

test("stop() ends plugins that are being asked and hang", async () => {
  await fake.behave("bridge", "VERSION", `touch '${fake.directory}/asked'; sleep 1000`);
  await put("a.conf", single("a"));
  const starting = source.start();
  await until("the plugin is asked", () => existsSync(join(fake.directory, "asked")));
  assert.match(problem(), /is being read, its plugins have not answered yet$/);
  await source.stop();
  await starting;
  assert.equal(clock.timers.size, 0);
});

test("a plugin that fails to answer is asked again although nothing has changed", async () => {
  await put("a.conf", single("a"));
  await fake.behave("bridge", "VERSION", "exit 1");
  await source.start();
  assert.match(problem(), /CNI plugin "bridge" VERSION: netplugin failed with no error message/);
  await fake.behaveAgain("bridge", "VERSION");
  await source.refresh();
  assert.equal(network(), "a");
});

type VersionReply = readonly [what: string, script: string, listVersion: string, problem?: RegExp];
const versionReplies: readonly VersionReply[] = [
  ["that knows no VERSION speaks 0.1.0", `echo '{"msg":"unknown CNI_COMMAND: VERSION"}'; exit 1`, "0.1.0"],
  ["of 0.2.0 without a list speaks 0.1.0 and 0.2.0", `echo '{"cniVersion":"0.2.0"}'`, "0.2.0"],
  ["of 0.2.0 with null for a list", `echo '{"cniVersion":"0.2.0","supportedVersions":null}'`, "0.1.0"],
  ["of 0.2.0 with an empty list", `echo '{"cniVersion":"0.2.0","supportedVersions":[]}'`, "0.2.0"],
  ["of 1.0.0 without a list", `echo '{"cniVersion":"1.0.0"}'`, "1.0.0", /no "supportedVersions"/],
  ["that prints garbage", "echo garbage", "1.0.0", /CNI plugin "bridge" VERSION: the answer is no JSON/],
];
for (const [what, script, cniVersion, expected] of versionReplies) {
  test(`a plugin ${what}`, async () => {
    await fake.behave("bridge", "VERSION", script);
    await put("a.conf", JSON.stringify({ name: "a", cniVersion, type: "bridge" }));
    await source.start();
    if (expected === undefined) assert.equal(network(), "a");
    else assert.match(problem(), expected);
  });
}

test("an event is followed by a look after a pause, many events by one", async () => {
  await source.start();
  await put("a.conf", single("a"));
  for (const notify of [...events, ...events]) notify();
  clock.pass(199);
  assert.equal(network(), undefined);
  clock.pass(1);
  await until("the network is there", () => network() === "a");
  assert.equal(clock.timers.size, 1, "only the poll goes on");
});

test("a replaced directory is watched anew", async () => {
  await source.start();
  await rename(directory, `${directory}.old`);
  await mkdir(directory);
  await source.refresh();
  await rm(`${directory}.old`, { recursive: true });
  assert.deepEqual([events.length, watches], [1, 2]);
});
