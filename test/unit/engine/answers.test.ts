import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { toListedContainer, toSnapshot } from "../../../src/shim/engine/container-snapshot.js";
import { fullContainer, fullImage } from "./full-answers.js";
import type { ListedImage } from "../../../src/domain/snapshot.js";
import { LayerSizes } from "../../../src/shim/engine/images.js";
import {
  toImageSnapshot,
  toListedImage as readListedImage,
} from "../../../src/shim/engine/image-snapshot.js";
import { negotiateMinor, toEngineVersion, toNodeFacts } from "../../../src/shim/engine/facts.js";

describe("toSnapshot()", () => {
  const minimal = { Id: "a".repeat(64) };

  test("of annotations only the properties of a systemd scope are kept", () => {
    const snapshot = (annotations?: object) =>
      toSnapshot({ ...minimal, HostConfig: { Annotations: annotations } });
    const annotations = { "org.systemd.property.MemoryHigh": "uint64 5", "a.b/c": "d" };
    assert.deepEqual(snapshot(annotations).scopeProperties, { MemoryHigh: "uint64 5" });
    assert.equal("scopeProperties" in snapshot({ "a.b/c": "d" }), false);
    assert.equal("scopeProperties" in snapshot(), false);
  });

  test("a full answer is read, in the shape of API 1.41 and in that of 1.52", () => {
    const slave = { type: "bind", readOnly: true, propagation: "rslave" };
    const expected = {
      id: "a".repeat(64),
      name: "k8s_POD_x",
      labels: { a: "b" },
      created: 1714979289123456789n,
      state: {
        status: "exited",
        running: false,
        pid: 0,
        exitCode: 137,
        oomKilled: true,
        error: "boom",
        started: 1714979290000000000n,
        finished: 1714979291500000000n,
      },
      imageId: "sha256:feed",
      imageName: "busybox:1",
      programBytes: 7,
      user: "1:2",
      tty: true,
      openStdin: true,
      stdinOnce: true,
      stopSignal: "SIGQUIT",
      mounts: [
        { ...slave, source: "/s", destination: "/t", name: "" },
        { type: "volume", source: "/x", destination: "/v", readOnly: false, propagation: "", name: "v" },
      ],
      requestedMounts: [
        requested({ ...slave, source: "/s", target: "/t", recursiveReadOnly: true }),
        requested({ type: "image", source: "busybox", target: "/i", imageSubPath: "bin" }),
        requested({ type: "bind", source: "/a", target: "/b", readOnly: true, propagation: "rshared" }),
        requested({ type: "volume", source: "volume", target: "/v" }),
        requested({ type: "bind", source: "/c", target: "/d" }),
      ],
      logPath: "/log",
      logDriver: "local",
      logOptions: { "max-size": "10m" },
      resolvConfPath: "/resolv.conf",
      networkMode: "container:x",
      portBindings: [
        { port: "80/tcp", hostIp: "::1", hostPort: "8080" },
        { port: "80/tcp", hostIp: "", hostPort: "8081" },
      ],
      pidMode: "host",
      ipcMode: "shareable",
      cgroupParent: "/kubepods",
      runtime: "runc",
      groupAdd: ["5"],
      privileged: true,
      resources: {
        ...{ cpuPeriod: 1, cpuQuota: -1, cpuShares: 3, memory: 4, memorySwap: -1 },
        ...{ cpusetCpus: "0", cpusetMems: "1", oomScoreAdj: -998 },
      },
      addresses: ["10.0.0.2", "fd00::1", "fd00::2"],
      graphDriver: { UpperDir: "/up" },
    };
    assert.deepEqual(toSnapshot(fullContainer), expected);
    const NetworkSettings = { ...fullContainer.NetworkSettings, IPAddress: "10.0.0.2" };
    assert.deepEqual(toSnapshot({ ...fullContainer, NetworkSettings }), expected);
    assert.deepEqual(toSnapshot({ ...fullContainer, GraphDriver: null }).graphDriver, {});
  });

  function requested(mount: object): object {
    const none = { type: "", source: "", target: "", propagation: "", imageSubPath: "" };
    return { ...none, readOnly: false, recursiveReadOnly: false, ...mount };
  }

  test("what Go leaves out or nulls is empty, and never is 0", () => {
    const zero = "0001-01-01T00:00:00Z";
    const { labels, mounts, requestedMounts, groupAdd, addresses, state, graphDriver } = toSnapshot({
      ...minimal,
      State: { Status: "created", StartedAt: zero, FinishedAt: zero },
      HostConfig: { Mounts: null, Binds: null, GroupAdd: null },
      ...{
        Config: { Labels: null },
        Mounts: null,
        NetworkSettings: { Networks: null },
        GraphDriver: { Data: null },
      },
    });
    for (const list of [mounts, requestedMounts, groupAdd, addresses]) assert.deepEqual(list, []);
    assert.deepEqual([labels, state.started, state.finished, graphDriver], [{}, 0n, 0n, {}]);
  });

  test("a label named __proto__ is a label", () => {
    const answer: unknown = JSON.parse('{"Id":"x","Config":{"Labels":{"__proto__":"p","n":1}}}');
    assert.deepEqual(Object.entries(toSnapshot(answer).labels), [["__proto__", "p"]]);
  });

  test("a status that is not known follows from whether it runs", () => {
    assert.equal(toSnapshot({ ...minimal, State: { Status: "new", Running: true } }).state.status, "running");
    assert.equal(toSnapshot({ ...minimal, State: { Status: "new" } }).state.status, "exited");
  });

  for (const answer of [null, [], "x", {}, { Id: 5 }]) {
    test(`${JSON.stringify(answer)} describes no container`, () => {
      assert.throws(() => toSnapshot(answer), { kind: "unknown" });
    });
  }
});

test("toListedContainer() reads an entry of the list", () => {
  const entry = {
    Id: "x",
    State: "running",
    Labels: { a: "b" },
    Names: ["/n", "/m/n"],
    Created: 1_700_000_000,
  };
  assert.deepEqual(toListedContainer({ ...entry, Image: "busybox", ImageID: "sha256:1a" }), {
    ...{ id: "x", status: "running", labels: { a: "b" }, names: ["n", "m/n"] },
    ...{ created: 1_700_000_000_000_000_000n, imageId: "sha256:1a", imageName: "busybox" },
  });
});

function toListedImage(answer: unknown): ListedImage {
  const image = readListedImage(answer);
  assert.ok(image !== undefined);
  return image;
}

describe("toImageSnapshot()", () => {
  test("a full answer is read", () => {
    assert.deepEqual(toImageSnapshot(fullImage), {
      id: "sha256:x",
      repoTags: ["a:1"],
      repoDigests: ["a@sha256:y"],
      hasRegistry: true,
      size: 7,
      user: "5",
      stopSignal: "SIGINT",
      labels: { a: "b" },
      architecture: "amd64",
      os: "linux",
      author: "me",
      created: "2024-01-01T00:00:00Z",
      config: fullImage.Config,
      layers: ["sha256:l"],
      volumes: ["/data"],
      graphDriverName: "overlay2",
      graphDriver: { UpperDir: "/u" },
    });
  });

  test("the containerd image store names no graph driver", () => {
    const image = toImageSnapshot({ Id: "sha256:x", GraphDriver: { Name: "overlayfs", Data: null } });
    assert.deepEqual([image.graphDriverName, image.graphDriver], ["overlayfs", {}]);
  });

  test("API 1.52 leaves out everything that is empty", () => {
    const image = toImageSnapshot({ Id: "sha256:x" });
    const { repoTags, labels, layers, volumes, config } = image;
    assert.deepEqual([repoTags, labels, layers, volumes, config], [[], {}, [], [], {}]);
  });
});

test("toListedImage() takes the digest reference that the containerd store puts among the tags for no tag", () => {
  const digest = `a@sha256:${"0".repeat(64)}`;
  const image = toListedImage({ Id: "x", RepoTags: [digest, "a:1"], RepoDigests: [digest] });
  assert.deepEqual([image.repoTags, image.repoDigests], [["a:1"], [digest]]);
});

describe("an odd entry of the list of images", () => {
  const odd: Readonly<Record<string, unknown>> = {
    "without an id": { RepoTags: ["a:1"], Size: 1 },
    "with an id that is no text": { Id: 5, RepoTags: ["a:1"] },
    "that is null": null,
    "that is a list": [{ Id: "good" }],
  };
  for (const [what, entry] of Object.entries(odd)) {
    test(`one ${what} is left out`, () => {
      assert.equal(readListedImage(entry), undefined);
    });
  }
});

describe("odd fields of an image", () => {
  const digest = `sha256:${"0".repeat(64)}`;
  for (const [what, read] of [
    ["toListedImage()", toListedImage],
    ["toImageSnapshot()", toImageSnapshot],
  ] as const) {
    test(`${what} takes null and mistyped fields for empty ones`, () => {
      const fields = { RepoTags: [null, 5, "", "a:1"], RepoDigests: null, Labels: null, Config: null };
      const image = read({ Id: "x", ...fields });
      assert.deepEqual([image.repoTags, image.repoDigests, image.size], [["a:1"], [], 0]);
    });

    test(`${what} leaves out names that are none`, () => {
      const fields = {
        RepoTags: ["<none>:<none>", "a:<none>"],
        RepoDigests: ["<none>@<none>", `<none>@${digest}`, digest, `a@${digest}`],
      };
      const image = read({ Id: "x", ...fields });
      assert.deepEqual([image.repoTags, image.repoDigests], [[], [`a@${digest}`]]);
    });

    for (const size of [-1, 1.5, 1e21, "7", null]) {
      test(`${what} takes the size ${size} for unknown`, () => {
        assert.equal(read({ Id: "x", Size: size }).size, 0);
      });
    }
  }
});

const digested = `a@sha256:${"0".repeat(64)}`;

describe("whether a registry has an image", () => {
  const byDigest: readonly (readonly [string, object, boolean])[] = [
    ["a tag and no digest", { RepoTags: ["a:1"], RepoDigests: [] }, false],
    ["a tag and null as digests", { RepoTags: ["a:1"], RepoDigests: null }, false],
    ["a tag and no field for digests", { RepoTags: ["a:1"] }, false],
    ["a tag and a digest", { RepoTags: ["a:1"], RepoDigests: [digested] }, true],
    ["a digest only", { RepoTags: null, RepoDigests: [digested] }, true],
    ["placeholders for names", { RepoTags: ["<none>:<none>"], RepoDigests: ["<none>@<none>"] }, false],
    // The containerd image store says so of an image that is here for another platform only.
    ["a bare digest", { RepoTags: ["a:1"], RepoDigests: [digested.slice(2)] }, true],
  ];
  for (const [what, fields, expected] of byDigest) {
    test(`is ${expected} with ${what}`, () => {
      assert.equal(toListedImage({ Id: "x", ...fields }).hasRegistry, expected, "listed");
      assert.equal(toImageSnapshot({ Id: "x", ...fields }).hasRegistry, expected, "inspected");
    });
  }

  const manifest = (Identity: unknown, changes: object = {}): object => ({
    Kind: "image",
    Available: true,
    ImageData: { Identity },
    ...changes,
  });
  const pulled = { Pull: [{ Repository: "docker.io/library/a" }] };
  const built = { Build: [{ Ref: "x" }] };
  const byIdentity: readonly (readonly [string, readonly object[] | null, boolean])[] = [
    ["was pulled", [manifest(pulled)], true],
    ["was built", [manifest(built)], false],
    ["was loaded", [manifest(undefined)], false],
    ["was built and pushed", [manifest({ ...built, ...pulled })], true],
    ["was pulled for one of its platforms", [manifest(undefined), manifest(pulled)], true],
    ["has no platform that is here", [manifest(undefined, { Available: false })], true],
    ["has attestations only", [manifest(undefined, { Kind: "attestation", ImageData: undefined })], true],
    ["has an empty list of manifests", [], true],
    ["has no list of manifests", null, true],
  ];
  for (const [what, manifests, expected] of byIdentity) {
    test(`is ${expected} for an image of the containerd image store that ${what}`, () => {
      const image = { Id: "x", RepoTags: ["a:1"], RepoDigests: [digested], Manifests: manifests };
      assert.equal(toListedImage(image).hasRegistry, expected);
    });
  }
});

describe("LayerSizes", () => {
  const base = { Created: 1, CreatedBy: "base", Size: 100 };
  const layer = (name: string, size: number): object => ({ Created: 2, CreatedBy: name, Size: size });

  test("sum() counts shared layers once, and equal ones over different layers twice", async () => {
    const histories = new Map<string, readonly object[]>([
      ["a", [layer("x", 10), base]],
      ["b", [layer("y", 5), layer("empty", 0), base]],
      ["c", [layer("x", 10), { ...base, CreatedBy: "other" }]],
    ]);
    const total = await new LayerSizes().sum([...histories.keys()], (id) =>
      Promise.resolve(histories.get(id)),
    );
    assert.equal(total, 100 + 10 + 5 + 100 + 10);
  });

  test("sum() asks once for each image, and again for one that was gone", async () => {
    const asked: string[] = [];
    const histories = new Map<string, readonly object[]>([["a", [base]]]);
    const sizes = new LayerSizes();
    const sum = async (ids: readonly string[]): Promise<number> =>
      sizes.sum(ids, (id) => {
        asked.push(id);
        return Promise.resolve(histories.get(id));
      });
    assert.equal(await sum(["a", "b"]), 100);
    histories.set("b", [layer("b", 7)]);
    assert.equal(await sum(["a", "b"]), 107);
    assert.equal(await sum(["b"]), 7);
    assert.deepEqual(asked, ["a", "b", "b"]);
  });
});

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
  const found = toEngineVersion({ Version: "20.10.24+dfsg1", ApiVersion: "1.41" });
  assert.deepEqual(found, { version: "20.10.24", apiVersion: "1.41" });
});

describe("toNodeFacts()", () => {
  const version = { Version: "28.5.2", ApiVersion: "1.51", Arch: "arm64" };

  test("a full answer is read", () => {
    const features = "org.opencontainers.runtime-spec.features";
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
          runc: { path: "runc", status: { [features]: JSON.stringify({ mountOptions: ["ro", "rro"] }) } },
          crun: { path: "crun", status: { [features]: JSON.stringify({ mountOptions: ["ro"] }) } },
          odd: { path: "odd", status: { [features]: "{" } },
          plain: { path: "plain" },
        },
        SecurityOptions: ["name=apparmor", "name=seccomp,profile=builtin", "name=userns", "name=cgroupns"],
        CDISpecDirs: ["/opt/cdi"],
        Warnings: ["WARNING: No swap limit support", "DEPRECATED NOTICE: x"],
        FirewallBackend: { Driver: "nftables+firewalld" },
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
      liveRestore: false,
      cdi: true,
      cdiSpecDirs: ["/opt/cdi"],
      warnings: ["No swap limit support", "DEPRECATED NOTICE: x"],
      firewallBackend: "nftables+firewalld",
      totalMemory: 123,
      cpus: 3,
      hostName: "Node-1",
      engineId: "engine-id",
    });
  });

  test("the kind of a runtime is told by its program; one with a type has none", () => {
    const kindOf = (runtime: object): string | undefined =>
      toNodeFacts(version, { Runtimes: { x: runtime } }, 51).runtimes[0]?.kind;
    for (const runtime of [{ path: "runc" }, { path: "/opt/bin/crun", runtimeArgs: ["--debug"] }])
      assert.equal(kindOf(runtime), "runc");
    for (const path of ["/usr/local/bin/runsc", "/usr/bin/notrunc"]) assert.equal(kindOf({ path }), "other");
    assert.equal(kindOf({}), "ownShim");
  });

  test("runc in front of which the OCI runtime stands is known by its version where the engine tells no features", () => {
    const isRecursive = (runc: string, runtime: object): boolean | undefined => {
      const components = { ...version, Components: [{ Name: "runc", Version: runc }] };
      return toNodeFacts(components, { Runtimes: { "dockershim-runc": runtime } }, 41).runtimes[0]
        ?.recursiveReadOnly;
    };
    const path = "/usr/lib/dockershim/dockershim-runc";
    for (const runc of ["1.1.5+ds1-1+deb12u1", "1.10.0", "2.0.0"])
      assert.equal(isRecursive(runc, { path }), true);
    for (const runc of ["1.0.3", "", "x1.1"]) assert.equal(isRecursive(runc, { path }), false);
    const runtimeArgs = ["--dockershim-runtime=/usr/bin/crun"];
    assert.equal(isRecursive("1.1.5", { path, runtimeArgs }), false);
    const status = { "org.opencontainers.runtime-spec.features": '{"mountOptions":["ro"]}' };
    assert.equal(isRecursive("1.1.5", { path, status }), false);
  });

  test("an old or sparse answer has sensible facts", () => {
    const facts = toNodeFacts(version, { DriverStatus: null, Runtimes: null, CgroupDriver: "" }, 41);
    const { cgroupDriver, cgroupVersion, imageStore, cdi, cdiSpecDirs, runtimes, warnings } = facts;
    assert.deepEqual([cgroupDriver, cgroupVersion, imageStore, cdi], ["cgroupfs", 1, "graph", false]);
    assert.deepEqual([cdiSpecDirs, runtimes, warnings], [["/etc/cdi", "/var/run/cdi"], [], []]);
    assert.equal(toNodeFacts(version, { CgroupDriver: "none" }, 41).cgroupDriver, "none");
    assert.equal(toNodeFacts(version, { CDISpecDirs: [] }, 45).cdi, false);
  });
});
