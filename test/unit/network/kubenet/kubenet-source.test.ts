import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { KubenetSource } from "../../../../src/network/kubenet/kubenet-source.js";
import { parsePodSubnets } from "../../../../src/network/pod-cidrs.js";
import { until } from "../../../fakes/turns.js";
import { debianPlugins, sourceOf as setUp } from "./kubenet-parts.js";
import { pluck } from "../../../support/pluck.js";

const subnets = parsePodSubnets(["10.1.0.0/16"]);
const typesOf = (source: KubenetSource) => pluck(source.state().network?.plugins ?? [], "type");

describe("KubenetSource", () => {
  test("has the newest version that all plugins speak", async () => {
    const { source } = setUp(debianPlugins());
    await source.configure({ subnets, mtuBytes: 1500 });
    assert.equal(source.state().network?.cniVersion, "1.0.0");
    assert.deepEqual(typesOf(source), ["bridge", "portmap", "bandwidth"]);
  });

  test("takes no version in which DEL is not told the result", async () => {
    const plugins = debianPlugins();
    plugins.installed.set("portmap", ["0.3.1"]);
    const { source } = setUp(plugins);
    await source.configure({ subnets, mtuBytes: 1500 });
    assert.match(source.state().problem ?? "", /no version from 0\.4\.0 on in common/);
  });

  test("does without optional plugins, and warns once", async () => {
    const { source, log } = setUp(debianPlugins("portmap", "bandwidth"));
    await source.configure({ subnets, mtuBytes: 1500 });
    await source.refresh();
    assert.deepEqual(typesOf(source), ["bridge"]);
    const missing = log.linesAt("warn").map(({ fields }) => fields["missing"]);
    assert.deepEqual(missing, [["portmap", "bandwidth"]]);
  });

  test("loses the network with a required plugin, keeps it for tear-down, and has it back by itself", async () => {
    const plugins = debianPlugins();
    const { source, clock } = setUp(plugins);
    await source.configure({ subnets, mtuBytes: 1500 });
    await source.start();
    const versions = plugins.installed.get("host-local")!;
    plugins.installed.delete("host-local");
    await source.refresh();
    assert.equal(
      source.state().problem,
      `could not locate kubenet required CNI plugins [bridge host-local] at ["/opt/cni/bin" "/usr/lib/cni"]`,
    );
    assert.equal(source.lastGood()?.name, "kubenet");
    plugins.installed.set("host-local", versions);
    clock.pass(5000);
    await until("the network is back", () => source.state().network !== undefined);
    assert.equal(source.state().network?.name, "kubenet");
    await source.stop();
    assert.equal(clock.timers.size, 0);
  });
});
