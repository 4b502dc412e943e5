import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { negotiateMinor, toEngineVersion, toNodeFacts } from "../../../src/shim/engine/facts.js";

describe("negotiateMinor()", () => {
  for (const [engine, ApiVersion, MinAPIVersion, minor] of [
    ["20.10.24", "1.41", "1.12", 41],
    ["26.1.5", "1.45", "1.24", 45],
    ["28.5.2", "1.51", "1.24", 51],
    ["29.0.1", "1.52", "1.44", 51],
    ["29.7.2", "1.56", "1.40", 51],
    ["40.0.0", "1.80", "1.60", 60],
  ] as const) {
    test(`Docker Engine ${engine} (API ${ApiVersion}, lowest ${MinAPIVersion}) is spoken to in 1.${minor}`, () => {
      assert.equal(negotiateMinor({ Version: engine, ApiVersion, MinAPIVersion }), minor);
    });
  }

  test("an engine that is too old is refused with both versions", () => {
    assert.throws(() => negotiateMinor({ Version: "19.03.15", ApiVersion: "1.40", MinAPIVersion: "1.12" }), {
      kind: "precondition",
      message: "Docker Engine 19.03.15 speaks API 1.40, dockershim needs 1.41 (Docker Engine 20.10) or newer",
    });
  });

  for (const answer of [{}, null, [], { ApiVersion: 1.41 }, { ApiVersion: "2.0" }, { ApiVersion: "1.x" }]) {
    test(`${JSON.stringify(answer)} comes from no Docker Engine`, () => {
      assert.throws(() => negotiateMinor(answer), { kind: "precondition" });
    });
  }
});

test("toEngineVersion() leaves out what the distribution adds", () => {
  assert.deepEqual(toEngineVersion({ Version: "20.10.24+dfsg1", ApiVersion: "1.41" }), {
    version: "20.10.24",
    apiVersion: "1.41",
  });
});

describe("toNodeFacts()", () => {
  const version = { Version: "28.5.2", ApiVersion: "1.51", Arch: "arm64" };

  test("a full answer is read", () => {
    const facts = toNodeFacts(
      version,
      {
        ID: "engine-id",
        Driver: "overlayfs",
        DriverStatus: [["driver-type", "io.containerd.snapshotter.v1"]],
        DockerRootDir: "/var/lib/docker",
        CgroupDriver: "systemd",
        CgroupVersion: "2",
        KernelVersion: "6.1.0",
        OperatingSystem: "Debian GNU/Linux 12",
        LoggingDriver: "journald",
        MemTotal: 123,
        NCPU: 3,
        Name: "Node-1",
        DefaultRuntime: "runc",
        Runtimes: {
          runc: {
            path: "runc",
            status: {
              "org.opencontainers.runtime-spec.features": JSON.stringify({ mountOptions: ["ro", "rro"] }),
            },
          },
          crun: {
            path: "crun",
            status: { "org.opencontainers.runtime-spec.features": JSON.stringify({ mountOptions: ["ro"] }) },
          },
          odd: { path: "odd", status: { "org.opencontainers.runtime-spec.features": "{" } },
          plain: { path: "plain" },
        },
        SecurityOptions: ["name=apparmor", "name=seccomp,profile=builtin", "name=userns", "name=cgroupns"],
        CDISpecDirs: ["/opt/cdi"],
      },
      51,
    );
    assert.deepEqual(facts, {
      engineVersion: "28.5.2",
      apiMinor: 51,
      engineApiVersion: "1.51",
      operatingSystem: "Debian GNU/Linux 12",
      kernelVersion: "6.1.0",
      architecture: "arm64",
      cgroupDriver: "systemd",
      cgroupVersion: 2,
      dockerRootDir: "/var/lib/docker",
      imageStore: "containerd",
      storageDriver: "overlayfs",
      loggingDriver: "journald",
      runtimes: [
        { name: "runc", kind: "runc", recursiveReadOnly: true },
        { name: "crun", kind: "runc", recursiveReadOnly: false },
        { name: "odd", kind: "other", recursiveReadOnly: false },
        { name: "plain", kind: "other", recursiveReadOnly: false },
      ],
      defaultRuntime: "runc",
      security: { apparmor: true, seccomp: true, selinux: false, usernsRemap: true, rootless: false },
      experimental: false,
      liveRestore: false,
      cdi: true,
      cdiSpecDirs: ["/opt/cdi"],
      totalMemory: 123,
      cpus: 3,
      hostName: "Node-1",
      engineId: "engine-id",
    });
  });

  test("the kind of a runtime is told by its program; one with a type has none", () => {
    const kindOf = (runtime: object): string | undefined =>
      toNodeFacts(version, { Runtimes: { x: runtime } }, 51).runtimes[0]?.kind;
    assert.equal(kindOf({ path: "runc" }), "runc");
    assert.equal(kindOf({ path: "/opt/bin/crun", runtimeArgs: ["--debug"] }), "runc");
    assert.equal(kindOf({ path: "/usr/local/bin/runsc" }), "other");
    assert.equal(kindOf({ path: "/usr/bin/notrunc" }), "other");
    assert.equal(kindOf({}), "ownShim");
  });

  test("an old or sparse answer has sensible facts", () => {
    const facts = toNodeFacts(version, { DriverStatus: null, Runtimes: null, CgroupDriver: "" }, 41);
    assert.deepEqual(
      [
        facts.cgroupDriver,
        facts.cgroupVersion,
        facts.imageStore,
        facts.cdi,
        facts.cdiSpecDirs,
        facts.runtimes,
      ],
      ["cgroupfs", 1, "graph", false, ["/etc/cdi", "/var/run/cdi"], []],
    );
    assert.equal(toNodeFacts(version, { CgroupDriver: "none" }, 41).cgroupDriver, "none");
    assert.equal(toNodeFacts(version, { CDISpecDirs: [] }, 45).cdi, false);
  });
});
