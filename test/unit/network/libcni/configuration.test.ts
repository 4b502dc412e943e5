import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  declaredCapabilities,
  parseNetworkList,
  parseSinglePlugin,
  requireUsable,
} from "../../../../src/network/libcni/configuration.js";
import { isKind } from "../../../../src/lib/errors.js";

const list = (members: object): string =>
  JSON.stringify({ name: "demo", cniVersion: "0.4.0", plugins: [{ type: "bridge" }], ...members });

describe("parseNetworkList()", () => {
  test("reads name, version, plugins and switches", () => {
    const text = list({
      disableCheck: true,
      disableGC: "TRUE",
      plugins: [{ type: "bridge", capabilities: { ipRanges: true, mac: false } }, { type: "portmap" }],
    });
    const { plugins, ...rest } = parseNetworkList(text, "10-a.conflist");
    assert.deepEqual(rest, {
      name: "demo",
      cniVersion: "0.4.0",
      versions: ["0.4.0"],
      disableCheck: true,
      disableGc: true,
      loadOnlyInlinedPlugins: false,
      text,
      source: "10-a.conflist",
    });
    const declared = plugins.map(({ type, capabilities }) => [type, ...capabilities].join());
    assert.deepEqual(declared, ["bridge,ipRanges", "portmap"]);
  });

  const versions: readonly (readonly [string, object, string])[] = [
    ["a missing version means 0.1.0", { cniVersion: undefined }, "0.1.0"],
    ["an empty version means 0.1.0", { cniVersion: "" }, "0.1.0"],
    ["the highest of cniVersions is used", { cniVersions: ["0.3.1", "1.0.0", "0.4.0"] }, "1.0.0"],
    ["cniVersion counts among cniVersions", { cniVersion: "1.1.0", cniVersions: ["0.3.1"] }, "1.1.0"],
    ["versions that are not known yet are dropped", { cniVersions: ["2.0.0", "1.0.0"] }, "1.0.0"],
    ["null is no version", { cniVersion: null, cniVersions: null }, "0.1.0"],
    ["an empty list of versions names none", { cniVersion: undefined, cniVersions: [] }, "0.1.0"],
    ["an unknown single version is left for the plugins to refuse", { cniVersion: "9.9.9" }, "9.9.9"],
  ];
  for (const [rule, members, expected] of versions) {
    test(rule, () => {
      const { cniVersion, versions: permitted } = parseNetworkList(list(members), "x");
      assert.deepEqual([cniVersion, permitted[0]], [expected, expected]);
    });
  }

  test("null is false for a capability, and none for all", () => {
    const plugins = [
      { type: "a", capabilities: { mac: null, ips: true } },
      { type: "b", capabilities: null },
    ];
    const parsed = parseNetworkList(list({ plugins }), "x");
    assert.deepEqual([...declaredCapabilities(parsed)], ["ips"]);
  });

  const faults: readonly (readonly [string, string, RegExp])[] = [
    ["broken JSON", '{\n  "name": "demo",\n  oops\n}', /line 3, column 3: expected a key in quotes/],
    ["something else than an object", "[]", /not a JSON object/],
    ["no name", list({ name: undefined }), /missing "name"/],
    ["a name that is a number", list({ name: 5 }), /"name" is not a string/],
    ["a version that is a number", list({ cniVersion: 1 }), /"cniVersion" is not a string/],
    ["cniVersions that is no list", list({ cniVersions: "1.0.0" }), /"cniVersions" is not a list/],
    ["an empty list of plugins", list({ plugins: [] }), /"plugins" is empty/],
    ["plugins that is no list", list({ plugins: {} }), /"plugins" is not a list/],
    ["a plugin without type", list({ plugins: [{ type: "a" }, {}] }), /missing "type" of plugin 2/],
    ["a plugin that is no object", list({ plugins: ["bridge"] }), /plugin 1 is not an object/],
    ["a switch that is a number", list({ disableCheck: 1 }), /"disableCheck" is neither true nor false/],
    [
      "a capability that is no boolean",
      list({ plugins: [{ type: "a", capabilities: { mac: "yes" } }] }),
      /capability "mac" of plugin 1 is neither true nor false/,
    ],
  ];
  for (const [what, text, reason] of faults) {
    test(`names the file for ${what}`, () => {
      assert.throws(
        () => parseNetworkList(text, "/etc/cni/net.d/10-a.conflist"),
        (error: unknown) => {
          assert.ok(isKind(error, "invalid"));
          assert.match(error.message, /^read network configuration "\/etc\/cni\/net\.d\/10-a\.conflist": /);
          assert.match(error.message, reason);
          return true;
        },
      );
    });
  }
});

describe("parseSinglePlugin()", () => {
  test("makes a list of one with the plugin's name and version", () => {
    const text = '{"name":"n","cniVersion":"0.3.1","type":"bridge","mtu":9000}';
    const single = parseSinglePlugin(text, "x.conf");
    assert.deepEqual([single.name, single.cniVersion, single.plugins.length], ["n", "0.3.1", 1]);
    assert.equal(single.loadOnlyInlinedPlugins, true);
    // What goes into the cache is a list, which can be read back.
    assert.deepEqual(parseNetworkList(single.text, "cache").plugins, single.plugins);
  });

  test("says that a list in a .conf file has the wrong file name", () => {
    assert.throws(() => parseSinglePlugin(list({}), "x.conf"), /must end in "\.conflist"/);
  });
});

test("requireUsable() refuses a list without plugins and names that plugins refuse", () => {
  assert.throws(() => requireUsable(parseNetworkList('{"name":"n"}', "x")), /no plugins in the list/);
  for (const name of ["", "-a", "a/b", "a b"]) {
    assert.throws(() => requireUsable(parseNetworkList(list({ name }), "x")), /network name/, name);
  }
  requireUsable(parseNetworkList(list({ name: "a_b.c-9" }), "x"));
});
