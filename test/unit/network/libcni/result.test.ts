import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { JsonObject } from "../../../../src/lib/json/exact-json.js";
import { convertResult, parseResult, podAddresses } from "../../../../src/network/libcni/result.js";
import { golden, recordedResult } from "../cni/golden.js";
import { pluck } from "../../../support/pluck.js";

describe("parseResult()", () => {
  const good: readonly (readonly [string, string, object])[] = [
    ["null is an empty result", "null", { cniVersion: "0.4.0" }],
    ["a missing version is the configuration's", '{"dns":{}}', { cniVersion: "0.4.0", dns: {} }],
    ["an empty version is the configuration's", '{"cniVersion":""}', { cniVersion: "0.4.0" }],
    ["a version that is null is the configuration's", '{"cniVersion":null}', { cniVersion: "0.4.0" }],
    ["an older version is kept", '{"cniVersion":"0.2.0"}', { cniVersion: "0.2.0" }],
  ];
  for (const [rule, stdout, expected] of good) {
    test(rule, () => assert.deepEqual(parseResult(stdout, "0.4.0"), expected));
  }

  const bad: readonly (readonly [string, string, RegExp])[] = [
    ["nothing", " \n", /^failed to unmarshal raw result: unexpected end of JSON input$/],
    ["garbage", "hello", /^failed to unmarshal raw result: line 1, column 1: .*"hello"$/],
    ["a list", "[]", /not a JSON object/],
    ["an unknown version", '{"cniVersion":"9.9.9"}', /^unsupported CNI result version "9\.9\.9"$/],
    ["a version that is no string", '{"cniVersion":1}', /"cniVersion" of the result is not a string/],
  ];
  for (const [what, stdout, message] of bad) {
    test(`refuses ${what}`, () => {
      assert.throws(() => parseResult(stdout, "0.4.0"), { message });
    });
  }
});

/** What the recorded plugin printed for another version of its configuration differs in random names only. */
function withoutNames(result: JsonObject): unknown {
  return JSON.parse(JSON.stringify(result).replaceAll(/"(mac|name)":"[^"]*"/g, '"$1":""'));
}

describe("convertResult()", () => {
  const versions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0"];
  for (const to of versions) {
    test(`gives a result of 1.0.0 the shape in which the bridge plugin prints ${to}`, () => {
      const converted = convertResult(recordedResult("bridge/add-1.0.0"), to);
      assert.deepEqual(withoutNames(converted), withoutNames(recordedResult(`bridge/add-${to}`)));
    });
  }

  test("tells the family where the version wants it", () => {
    const { ips } = convertResult(recordedResult("bridge/add-dualstack-1.0.0"), "0.4.0");
    assert.deepEqual(pluck(ips as { version: string }[], "version"), ["4", "6"]);
  });

  test("drops what 1.1.0 added on the way to 0.4.0, and keeps it between 1.0.0 and 1.1.0", () => {
    const newest: JsonObject = {
      cniVersion: "1.1.0",
      interfaces: [{ name: "eth0", sandbox: "/x", mtu: 1400, pciID: "0000" }],
      ips: [{ interface: 0, address: "10.0.0.2/24" }],
      routes: [{ dst: "0.0.0.0/0", gw: "10.0.0.1", mtu: 1400, table: 7 }],
    };
    assert.deepEqual(convertResult(newest, "0.4.0"), {
      cniVersion: "0.4.0",
      interfaces: [{ name: "eth0", sandbox: "/x" }],
      ips: [{ version: "4", interface: 0, address: "10.0.0.2/24" }],
      routes: [{ dst: "0.0.0.0/0", gw: "10.0.0.1" }],
    });
    assert.deepEqual(convertResult(newest, "1.0.0"), { ...newest, cniVersion: "1.0.0" });
  });

  test("takes the first address of a family, and only the routes of families with one", () => {
    const converted = convertResult(
      {
        cniVersion: "1.0.0",
        ips: [{ address: "10.0.0.2/24" }, { address: "10.0.0.3/24" }],
        routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
      },
      "0.2.0",
    );
    assert.deepEqual(converted, {
      cniVersion: "0.2.0",
      ip4: { ip: "10.0.0.2/24", routes: [{ dst: "0.0.0.0/0" }] },
    });
  });

  test("refuses to make a 0.2.0 result of no address", () => {
    assert.throws(() => convertResult({ cniVersion: "1.0.0", interfaces: [] }, "0.2.0"), {
      message: "cannot convert: no valid IP addresses",
    });
  });
});

describe("podAddresses()", () => {
  const { runs } = golden<{ runs: Record<string, unknown> }>("results.json");
  for (const name of Object.keys(runs).filter((each) => /^(bridge|chain)\//.test(each))) {
    const dual = /dualstack|chain/.test(name);
    const ifName = name.includes("other-if") ? "eth1" : "eth0";
    test(`finds the pod's addresses in the recorded ${name}`, () => {
      const addresses = podAddresses(recordedResult(name), ifName);
      assert.match(addresses[0] ?? "", /^10\.88\.0\.\d+$/);
      assert.equal(addresses[1], dual ? "fd00:88::2" : undefined);
    });
  }

  const pod = { name: "eth0", sandbox: "/x" };
  const rows: readonly (readonly [string, JsonObject, readonly string[]])[] = [
    [
      "IPv4 comes first",
      { interfaces: [pod], ips: ["fd00::2/64", "10.0.0.2/24"].map((address) => ({ address, interface: 0 })) },
      ["10.0.0.2", "fd00::2"],
    ],
    [
      "addresses on the host's and on further interfaces are not the pod's",
      {
        interfaces: [{ name: "cni0" }, pod, { name: "net1", sandbox: "/x" }, { name: "bwp0" }],
        ips: [0, 1, 2, 3, 9].map((index) => ({ address: `10.0.0.${index}/24`, interface: index })),
      },
      ["10.0.0.1"],
    ],
    ["an address without an interface is the pod's", { ips: [{ address: "10.0.0.2/24" }] }, ["10.0.0.2"]],
    [
      "an interface listed without its sandbox is better than nothing",
      { interfaces: [{ name: "eth0" }], ips: [{ address: "10.0.0.2/24", interface: 0 }] },
      ["10.0.0.2"],
    ],
    ["no address is no address", { interfaces: [pod] }, []],
    ["null is no address", { interfaces: null, ips: null, routes: null, dns: {} }, []],
    [
      "addresses of loopback are not the pod's",
      {
        interfaces: [{ name: "lo", sandbox: "/x" }],
        ips: ["127.0.0.1/8", "::1/128"].map((address) => ({ address, interface: 0 })),
      },
      [],
    ],
    ["addresses of loopback in the shape of 0.2.0 are not, either", { ip4: { ip: "127.0.0.1/8" } }, []],
    ["text that is no address is left out", { ips: [{ address: "nonsense" }, {}] }, []],
  ];
  for (const [rule, result, expected] of rows) {
    test(rule, () => assert.deepEqual(podAddresses({ cniVersion: "1.0.0", ...result }, "eth0"), expected));
  }
});
