import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { prepareHostSysctls } from "../../../../src/network/kubenet/host-sysctls.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { temporaryDirectory } from "../../base/temporary-directory.js";
import { fakeCommands, never } from "../iptables/fake-commands.js";

const four = "net/bridge/bridge-nf-call-iptables";
const six = "net/bridge/bridge-nf-call-ip6tables";
const strict = "net/ipv4/conf/all/rp_filter";

async function prepare(root: string, settings: Readonly<Record<string, string>>) {
  for (const [name, value] of Object.entries(settings)) {
    await mkdir(dirname(join(root, name)), { recursive: true });
    await writeFile(join(root, name), value);
  }
  const log = recordingLog();
  const run = fakeCommands(() => "notFound");
  await prepareHostSysctls({ run, log, sysctlRoot: root }, never);
  assert.deepEqual(run.lines(), ["modprobe br-netfilter"]);
  return log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields["setting"]);
}

describe("prepareHostSysctls()", () => {
  test("lets iptables of both families see bridged traffic", async () => {
    await using at = await temporaryDirectory();
    assert.deepEqual(await prepare(at.path, { [four]: "0\n", [six]: "0\n", [strict]: "2\n" }), []);
    for (const name of [four, six]) assert.equal((await readFile(join(at.path, name), "utf8")).trim(), "1");
  });

  test("warns when that is not possible, and of strict reverse path filtering", async () => {
    await using at = await temporaryDirectory();
    assert.deepEqual(await prepare(at.path, { [strict]: "1\n" }), [four, strict]);
  });
});
