import assert from "node:assert/strict";
import { test } from "node:test";
import { annotationPrefixesKind, ulimitsKind } from "../../../src/shim/config/container-options.js";
import { resolveConfig, type GivenFlag } from "../../../src/shim/config/resolve.js";
import { testKind } from "./kinds.js";

const nofile = { Name: "nofile", Soft: 1024, Hard: 524288 };

testKind("ulimitsKind", ulimitsKind, {
  good: [
    ["", [], []],
    ["nofile=1024:524288", [nofile], ["nofile=1024:524288"]],
    ["nproc=5", [{ Name: "nproc", Soft: 5, Hard: 5 }], ["nproc=5:5"]],
    [
      "nofile=1024:524288, core=0:-1",
      [nofile, { Name: "core", Soft: 0, Hard: -1 }],
      ["nofile=1024:524288", "core=0:-1"],
    ],
    ["core=-1:-1", [{ Name: "core", Soft: -1, Hard: -1 }], ["core=-1:-1"]],
  ],
  bad: [
    ["nofile", /ulimit "nofile": is not of the form name=soft:hard/],
    ["nofile=", /form name=soft:hard/],
    ["nofile=1:2:3", /form name=soft:hard/],
    ["nofile=1k:2k", /form name=soft:hard/],
    ["nofile=-2:5", /form name=soft:hard/],
    ["nofile=1:2,", /ulimit "": is not of the form/],
    ["RLIMIT_NOFILE=1:2", /the name must be one of core, cpu/],
    ["nofiles=1:2", /the name must be one of/],
    ["nofile=2:1", /the soft limit exceeds the hard one/],
    ["core=-1:5", /the soft limit exceeds the hard one/],
    ["nofile=1024:-1", /nofile cannot be unlimited/],
    ["nproc=9999999999999999", /is too large; use -1 for unlimited/],
    ["nofile=1:2,nproc=1,nofile=3:4", /names the ulimit "nofile" twice/],
  ],
});

testKind("annotationPrefixesKind", annotationPrefixesKind, {
  good: [
    ["", [], []],
    ["run.oci., io.katacontainers.", ["run.oci.", "io.katacontainers."], ["run.oci.", "io.katacontainers."]],
  ],
  bad: [
    [",", /has an empty prefix/],
    ["a.,", /has an empty prefix/],
  ],
});

const resolve = (flags: readonly GivenFlag[]) =>
  resolveConfig(flags, {}, () => Promise.reject(new Error("no file")));

test("--default-ulimits and --allowed-annotations may be given repeatedly", async () => {
  const { config, sources } = await resolve([
    { name: "default-ulimits", text: "nofile=1024:524288" },
    { name: "allowed-annotations", text: "a." },
    { name: "default-ulimits", text: "nproc=5,core=0" },
    { name: "allowed-annotations", text: "b." },
  ]);
  assert.deepEqual(
    config.defaultUlimits.map(({ Name }) => Name),
    ["nofile", "nproc", "core"],
  );
  assert.deepEqual(config.allowedAnnotations, ["a.", "b."]);
  assert.deepEqual(sources["default-ulimits"]?.value, ["nofile=1024:524288", "nproc=5:5", "core=0:0"]);
});

test("the error of a wrong ulimit names the values of all repeated flags", async () => {
  const flags = ["nofile=1:2", "nofile=3:4"].map((text) => ({ name: "default-ulimits", text }));
  await assert.rejects(
    resolve(flags),
    /flag "--default-ulimits": "nofile=1:2,nofile=3:4": names the ulimit "nofile" twice/,
  );
});
