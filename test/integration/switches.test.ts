/**
 * Two servers take turns behind one socket, as on a node that changes its runtime there and back. A client
 * that lists as a kubelet does sees every pod unchanged, and nothing is left in the end.
 *
 * The other server has a state directory of its own, as dockershim and cri-dockerd have. With the path of a
 * cri-dockerd in DOCKERSHIM_TEST_CRI_DOCKERD it is that one: for an engine with API 1.42 or later.
 */
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { connectCri } from "../support/cri-client.js";
import { criDockerd, type CriServer, startCriDockerd } from "../support/cri-dockerd.js";
import { SwitchLoad } from "../support/switch-load.js";
import { long, reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const switches = Number(process.env["DOCKERSHIM_TEST_SWITCHES"] ?? (long ? 100 : 4));
/** For both servers, as `--network-plugin=cni`. */
const flags = (process.env["DOCKERSHIM_TEST_SWITCH_FLAGS"] ?? "").split(" ").filter((flag) => flag !== "");
/** Every n-th switch is a crash, the others let calls in flight end. */
const crashEvery = 4;

describe("switches between two servers", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();

  test(`${switches} switches behind one socket change no pod and leave nothing`, async (context) => {
    const directory = await bed.newDirectory();
    const others = criDockerd === "" ? join(directory, "other") : "/var/lib/cri-dockerd";
    const socket = join(directory, "cri.sock");

    async function startOurs(): Promise<CriServer> {
      const shim = await bed.startShim({ directory, flags });
      return { end: (signal) => (signal === "SIGTERM" ? shim.stop() : shim.kill()) };
    }
    async function startOther(): Promise<CriServer> {
      if (criDockerd !== "") return startCriDockerd(bed, { socket, root: others, flags });
      const shim = await bed.startShim({ directory, flags: [...flags, `--state-dir=${others}`] });
      return { end: (signal) => (signal === "SIGTERM" ? shim.stop() : shim.kill()) };
    }

    let server = await startOurs();
    using cri = connectCri(socket);
    const load = new SwitchLoad(bed, cri);
    const before = [await load.runLastingPod(), await load.runLastingPod()];
    await server.end("SIGTERM");
    server = await startOther();
    await until("the other server", async () => (await cri.Version()).runtime_name !== "");
    before.push(await load.runLastingPod(), await load.runLastingPod());

    load.start({ workers: 2 });
    for (let count = 1; count <= switches; count += 1) {
      await server.end(count % crashEvery === 0 ? "SIGKILL" : "SIGTERM");
      server = await (count % 2 === 1 ? startOurs() : startOther());
      const { lists, lived } = load.counts;
      await until("lists and the life of a pod after the switch", () =>
        Promise.resolve(load.counts.lists >= lists + 3 && load.counts.lived > lived),
      );
      const at = `after switch ${count}`;
      for (const facts of before) assert.deepEqual(await load.facts(facts.sandboxId), facts, at);
      assert.deepEqual(load.wrong, [], at);
    }
    await load.stop();
    const { lists, gaps, lived, disturbed } = load.counts;
    context.diagnostic(
      `${switches} switches, ${lists} lists (${gaps} without a server), ${lived} pods lived, ${disturbed} disturbed`,
    );
    assert.deepEqual(load.wrong, []);

    if (switches % 2 === 0) {
      await server.end("SIGTERM");
      server = await startOurs();
    }
    await until("the last server", async () => (await cri.Version()).runtime_name !== "");
    await load.removeAll();
    assert.deepEqual(await bed.ownContainers(), []);
    await server.end("SIGTERM");
    if (criDockerd === "") {
      server = await startOther();
      await load.removeAll();
      await server.end("SIGTERM");
    }
    for (const path of [
      "state/sandbox",
      "state/pods",
      "state/containers",
      "state/logs",
      "state/quarantine",
    ]) {
      assert.deepEqual(await namesIn(join(directory, path)), [], path);
    }
    // A cri-dockerd that is killed leaves temporary files, which neither program takes for checkpoints.
    const left = (await namesIn(join(others, "sandbox"))).filter((name) => !name.startsWith("."));
    assert.deepEqual(left, []);
    assert.ok(lived > 0);
  });
});

async function namesIn(directory: string): Promise<readonly string[]> {
  return readdir(directory).catch(() => []);
}
