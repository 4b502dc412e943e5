import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  cdiEnvironment,
  isCdiDeviceName,
  requestedCdiDevices,
  resolveCdiDevices,
  type CdiSpecFile,
} from "../../../src/shim/plan/cdi.js";
import { targetsOf } from "../../../src/shim/plan/cdi-edits.js";
import { refusal } from "../../support/refusals.js";

function spec(
  devices: readonly unknown[],
  containerEdits?: unknown,
  rest: Partial<CdiSpecFile> = {},
): CdiSpecFile {
  const content = { cdiVersion: "0.6.0", kind: "v.com/gpu", devices, containerEdits };
  return { path: "/etc/cdi/v.json", priority: 0, content, ...rest };
}

const common = { env: ["COMMON=1"], hooks: [], intelRdt: null };
const gpu0 = {
  name: "0",
  containerEdits: {
    env: ["GPU=0"],
    deviceNodes: [
      { path: "/dev/g0", major: 195, minor: 0, type: "c" },
      { path: "/dev/ctl", hostPath: "/dev/h", permissions: "rw" },
    ],
    mounts: [{ hostPath: "/lib/g", containerPath: "/lib/g", options: ["ro", "rbind", "rprivate"] }],
    additionalGids: [44],
  },
};

describe("resolveCdiDevices()", () => {
  test("gives the common edits once and then each device's", () => {
    const files = [spec([gpu0, { name: "1", containerEdits: { env: ["GPU=1"] } }], common)];
    assert.deepEqual(resolveCdiDevices(files, ["v.com/gpu=0", "v.com/gpu=1", "v.com/gpu=0"]), {
      env: ["COMMON=1", "GPU=0", "GPU=1"],
      devices: [
        { PathOnHost: "/dev/g0", PathInContainer: "/dev/g0", CgroupPermissions: "rwm" },
        { PathOnHost: "/dev/h", PathInContainer: "/dev/ctl", CgroupPermissions: "rw" },
      ],
      mounts: [
        {
          Type: "bind",
          Source: "/lib/g",
          Target: "/lib/g",
          ReadOnly: true,
          BindOptions: { Propagation: "rprivate" },
        },
      ],
      groups: ["44"],
    });
  });

  test("takes the last of several mounts at one path", () => {
    const at = (hostPath: string, containerPath: string) => ({ mounts: [{ hostPath, containerPath }] });
    const devices = [
      { name: "0", containerEdits: at("/a", "/lib/g") },
      { name: "1", containerEdits: at("/b", "/lib/g/") },
    ];
    const { mounts, ...others } = resolveCdiDevices([spec(devices)], ["v.com/gpu=0", "v.com/gpu=1"]);
    assert.deepEqual([mounts.length, mounts[0]?.Source], [1, "/b"]);
    assert.deepEqual(others, { env: [], devices: [], groups: [] });
  });

  test("takes the device of the later directory", () => {
    const from = (where: string) => [{ name: "0", containerEdits: { env: [`FROM=${where}`] } }];
    const files = [
      spec(from("run"), undefined, { path: "/var/run/cdi/v.json", priority: 1 }),
      spec(from("etc")),
    ];
    assert.deepEqual(resolveCdiDevices(files, ["v.com/gpu=0"]).env, ["FROM=run"]);
  });

  test("refuses a device that two files of one directory define", () => {
    const files = [spec([gpu0]), spec([gpu0], undefined, { path: "/etc/cdi/w.json" })];
    const both = /"v\.com\/gpu=0": cannot be resolved: both "\/etc\/cdi\/v\.json" and "\/etc\/cdi\/w\.json"/;
    assert.throws(() => resolveCdiDevices(files, ["v.com/gpu=0"]), refusal("precondition", both));
  });

  test("refuses unknown devices, also with malformed files", () => {
    const malformed = [null, "text", 5, [], { kind: "v.com/gpu", devices: "x" }];
    const files = [spec([gpu0]), ...malformed.map((content) => spec([], undefined, { content }))];
    const none = refusal("precondition", /^CDI device ".*": cannot be resolved: no specification/);
    for (const name of ["v.com/gpu=9", "v.com/nic=0", "w.com/gpu=0"])
      assert.throws(() => resolveCdiDevices(files, [name]), none);
  });

  test("gives what Docker has no words for to the OCI runtime, and names the first of it", () => {
    const ldconfig = { hookName: "createContainer", path: "/bin/cdi", args: ["cdi", "ldconfig"], timeout: 5 };
    const started = { hookName: "poststart", path: "/bin/started", env: ["A=1"] };
    const containerEdits = {
      deviceNodes: [{ path: "/dev/x/", uid: 0, fileMode: 438, gid: 44 }, { path: "/dev/y" }],
      mounts: [
        { hostPath: "/lib/g", containerPath: "/lib/g/", options: ["ro", "nosuid", "nodev", "bind"] },
        { hostPath: "/a", containerPath: "/a", options: ["nosuid"] },
        { hostPath: "/plain", containerPath: "/plain", options: ["ro"] },
        { hostPath: "tmpfs", containerPath: "/t", type: "tmpfs", options: ["size=1m"] },
      ],
      hooks: [ldconfig, started, { ...ldconfig, path: "/bin/second", timeout: null }],
    };
    const edits = resolveCdiDevices([spec([{ name: "0", containerEdits }])], ["v.com/gpu=0"]);
    assert.deepEqual(edits.mounts, [{ Type: "bind", Source: "/plain", Target: "/plain", ReadOnly: true }]);
    assert.equal(edits.devices.length, 2);
    const { hookName: _at, ...hook } = ldconfig;
    assert.deepEqual(edits.beyondDocker, {
      device: "v.com/gpu=0",
      part: "hooks",
      changes: {
        hooks: {
          createContainer: [hook, { path: "/bin/second", args: hook.args }],
          poststart: [{ path: "/bin/started", env: ["A=1"] }],
        },
        mounts: [
          {
            destination: "/lib/g",
            type: "bind",
            source: "/lib/g",
            options: ["ro", "nosuid", "nodev", "bind"],
          },
          { destination: "/a", type: "bind", source: "/a", options: ["rbind", "nosuid"] },
          { destination: "/t", type: "tmpfs", source: "tmpfs", options: ["size=1m"] },
        ],
        deviceOwners: { "/dev/x": { uid: 0, fileMode: 438, gid: 44 } },
      },
    });
    assert.deepEqual(targetsOf(edits), ["/plain", "/lib/g", "/a", "/t"]);
  });

  for (const [part, edits] of [
    ["intelRdt", { intelRdt: { closID: "x" } }],
    ["netDevices", { netDevices: [{ hostInterfaceName: "eth1", name: "net1" }] }],
  ] as const) {
    test(`refuses ${part} by name`, () => {
      const resolve = () =>
        resolveCdiDevices([spec([{ name: "0", containerEdits: edits }])], ["v.com/gpu=0"]);
      const refused = new RegExp(`^CDI device "v.com/gpu=0": this engine cannot apply .*${part}`);
      assert.throws(resolve, refusal("unsupported", refused));
    });
  }

  test("refuses malformed edits", () => {
    const nodes = [{ deviceNodes: [{}] }, { deviceNodes: [null] }];
    for (const containerEdits of [
      ...nodes,
      { mounts: [{ hostPath: "/a" }] },
      { env: [5] },
      { deviceNodes: [{ path: "/dev/x", uid: "0" }] },
      { hooks: [{ hookName: "later", path: "/bin/x" }] },
      { hooks: [{ hookName: "prestart", path: "x" }] },
      { hooks: [{ hookName: "prestart", path: "/x", args: [1] }] },
      { additionalGids: ["x"] },
    ]) {
      const resolve = () => resolveCdiDevices([spec([{ name: "0", containerEdits }])], ["v.com/gpu=0"]);
      assert.throws(resolve, refusal("precondition", /malformed/), JSON.stringify(containerEdits));
    }
  });
});

describe("cdiEnvironment()", () => {
  test("gives the environment of the common edits once and of each device", () => {
    const files = [spec([gpu0, { name: "1", containerEdits: { env: ["GPU=1"] } }], common)];
    assert.deepEqual(cdiEnvironment(files, ["v.com/gpu=0", "v.com/gpu=1"]), ["COMMON=1", "GPU=0", "GPU=1"]);
  });

  const hooks = { hooks: [{ hookName: "createContainer", path: "/bin/x" }], env: ["HOOKED=1"] };
  const odd = { name: "odd", containerEdits: { env: [5] } };
  const files = [spec([{ name: "0", containerEdits: hooks }, odd])];
  const twice = [...files, spec([gpu0], undefined, { path: "/etc/cdi/w.json" })];

  test("takes what only the engine understands", () => {
    assert.deepEqual(cdiEnvironment(files, ["v.com/gpu=odd", "v.com/gpu=0"]), ["HOOKED=1"]);
  });

  test("refuses devices that cannot be resolved, unless a file could not be read", () => {
    const unreadable = spec([], undefined, { content: undefined });
    for (const [specs, name, message] of [
      [files, "v.com/gpu=9", /^CDI device "v\.com\/gpu=9": cannot be resolved: no specification/],
      [[], "w.com/gpu=0", /^CDI device "w\.com\/gpu=0": cannot be resolved/],
      [twice, "v.com/gpu=0", /: both "\/etc\/cdi\/v\.json" and "\/etc\/cdi\/w\.json" define it/],
    ] as const) {
      assert.throws(() => cdiEnvironment(specs, [name]), refusal("precondition", message));
      assert.deepEqual(cdiEnvironment([...specs, unreadable], [name]), []);
    }
  });
});

describe("requestedCdiDevices()", () => {
  const requested = (annotations: Readonly<Record<string, string>>, ...names: readonly string[]) =>
    requestedCdiDevices({ CDI_devices: names.map((name) => ({ name })), annotations });

  test("names the devices of the field, then those of annotations in the order of their keys, each once", () => {
    const later = { "cdi.k8s.io/z": "v.com/c=1", other: "v.com/c=9" };
    const found = requested({ ...later, "cdi.k8s.io/a": "v.com/c=2,v.com/c=0" }, "v.com/c=0", "v.com/c=0");
    assert.deepEqual(found, ["v.com/c=0", "v.com/c=2", "v.com/c=1"]);
  });

  test("refuses malformed annotations by their keys", () => {
    const message = /^config\.annotations\[cdi\.k8s\.io\/a\] .*: is not of the form vendor\/class=name/;
    for (const value of ["", "v.com/c", "v.com/c=1,", "v.com/c=1, v.com/c=2"])
      assert.throws(() => requested({ "cdi.k8s.io/a": value }), refusal("invalid", message), value);
  });

  test("refuses a malformed name in the field, naming its place", () => {
    const message = /^config\.CDI_devices\[1\]\.name "gpu": is/;
    assert.throws(() => requested({}, "v.com/c=0", "gpu"), refusal("invalid", message));
  });
});

test("isCdiDeviceName() wants vendor, class and name", () => {
  for (const name of ["v.com/gpu=0", "nvidia.com/gpu=GPU-1:2", "a/b=c", "v_1.com/a.b-c=0.1"])
    assert.equal(isCdiDeviceName(name), true, name);
  for (const name of [
    ...["", "gpu=0", "v.com/gpu", "v.com/gpu=", "v.com/1=0", "v.com/gpu=0 1"],
    ...["/gpu=0", "1v.com/gpu=0", "v.com/gpu-=0", "v.com/gpu=0:"],
  ]) {
    assert.equal(isCdiDeviceName(name), false, name);
  }
});
