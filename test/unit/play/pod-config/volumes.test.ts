import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  type VolumeMountsInput,
  volumeMounts,
  volumePreparations,
} from "../../../../src/play/pod-config/volumes.js";
import type { Manifest } from "../../../../src/play/manifests/read-manifests.js";
import { makeFixture, uncheckedPodWith } from "../fake-cri.js";

const { directories, node } = makeFixture().deps;

const preparationsOf = (manifest: Manifest) =>
  volumePreparations({ manifest, node, podIps: [] }, directories);

/** Those of the first container. */
function mountsOf(manifest: Manifest, changes: Partial<VolumeMountsInput> = {}) {
  const [container] = manifest.pod.spec.containers;
  assert.ok(container);
  const environment = new Map([["POD", "web-0"]]);
  const facts = { manifest, container, directories, node, podIps: [], images: new Map(), environment };
  return volumeMounts({ ...facts, recursiveReadOnly: true, ...changes });
}

const spec = `
  securityContext: {fsGroup: 7}
  volumes: [{name: e, emptyDir: {}}, {name: none}, {name: h, hostPath: {path: /srv/x/, type: DirectoryOrCreate}}]
  containers:
    - name: c
      image: x
      volumeMounts:
        - {name: e, mountPath: data, subPath: a/b}
        - {name: h, mountPath: /h/, readOnly: true, mountPropagation: HostToContainer}
`;

test("volumePreparations() gives an emptyDir the fsGroup, and makes one of a volume without a source", async () => {
  const manifest = await uncheckedPodWith(spec);
  assert.deepEqual(preparationsOf(manifest), [
    { kind: "emptyDir", path: "/state/uid-1/volumes/empty-dir/e", group: 7, memoryBytes: undefined },
    { kind: "emptyDir", path: "/state/uid-1/volumes/empty-dir/none", group: 7, memoryBytes: undefined },
    { kind: "hostPath", path: "/srv/x", type: "DirectoryOrCreate" },
  ]);
});

const emptyDir = "/state/uid-1/volumes/empty-dir/e";

test("volumeMounts() makes container paths absolute and relabels only what play made", async () => {
  const mounts = mountsOf(await uncheckedPodWith(spec), { node: { ...node, seLinux: true } });
  assert.deepEqual(mounts, [
    {
      ...{ volumePath: emptyDir, subPath: "a/b", subPathTarget: "/state/uid-1/volumes/sub-paths/e/c/0" },
      mount: {
        ...{ container_path: "/data", host_path: emptyDir, readonly: false },
        ...{ recursive_read_only: false, propagation: 0, selinux_relabel: true },
      },
    },
    {
      ...{ volumePath: "/srv/x", subPath: "", subPathTarget: "/state/uid-1/volumes/sub-paths/h/c/1" },
      mount: {
        ...{ container_path: "/h", host_path: "/srv/x", readonly: true },
        ...{ recursive_read_only: false, propagation: 1, selinux_relabel: false },
      },
    },
  ]);
});

const modelSpec = `
  volumes: [{name: m, image: {reference: "model:1"}}]
  containers:
    - name: c
      image: x
      volumeMounts: [{name: m, mountPath: /m/}, {name: m, mountPath: n, subPath: a/b, readOnly: false}]
`;

test("an image is mounted read-only, its sub path is left to the CRI, and nothing is made for it", async () => {
  assert.deepEqual(preparationsOf(await uncheckedPodWith(modelSpec)), []);
  const image = { image: "sha256:1", user_specified_image: "model:1" };
  const images = new Map([["m", image]]);
  const mounts = mountsOf(await uncheckedPodWith(modelSpec), { images });
  const mount = (container_path: string, image_sub_path: string) => ({
    volumePath: "",
    subPath: "",
    subPathTarget: "",
    mount: { container_path, image, image_sub_path, readonly: true },
  });
  assert.deepEqual(mounts, [mount("/m", ""), mount("/n", "a/b")]);
});

test("volumePreparations() has the places in volumes of objects on which containers mount others", async () => {
  const manifest = await uncheckedPodWith(`
  volumes: [{name: d, downwardAPI: {items: []}}, {name: e, emptyDir: {}}]
  initContainers: [{name: i, image: x, volumeMounts: [{name: d, mountPath: /i}, {name: e, mountPath: /i/one/two}]}]
  containers:
    - name: c
      image: x
      volumeMounts:
        - {name: e, mountPath: /etc/app/one/two/three}
        - {name: d, mountPath: /etc/app/}
        - {name: e, mountPath: /etc/app/one/two}
        - {name: e, mountPath: /etc/app/one-more}
        - {name: e, mountPath: /etc/app/../other}
        - {name: d, mountPath: /part, subPath: s}
        - {name: e, mountPath: /part/x}
`);
  const [files] = preparationsOf(manifest);
  assert.ok(files?.kind === "files");
  assert.deepEqual(files.mountPoints, ["one/two", "one-more"]);
});

describe("volumePreparations()", () => {
  const objects = {
    configMaps: new Map([["web", { a: Buffer.from("1"), b: Buffer.from("2") }]]),
    secrets: new Map([["key", { type: "Opaque", data: { k: Buffer.from("3") } }]]),
  };
  const filesOf = async (volume: string, mode = false) => {
    const manifest = {
      ...(await uncheckedPodWith(`  containers: [{name: c, image: x}]\n  volumes: [{name: v, ${volume}}]`)),
      objects,
    };
    const [preparation] = preparationsOf(manifest);
    assert.equal(preparation?.kind, "files");
    const entries = [...preparation.files].map(([path, file]) => [
      path,
      mode ? file.mode.toString(8) : file.content.toString(),
    ]);
    return { ...preparation, files: Object.fromEntries(entries) as Readonly<Record<string, string>> };
  };
  const cases: readonly (readonly [string, object])[] = [
    ["configMap: {name: web}", { a: "1", b: "2" }],
    ["configMap: {name: web, items: []}", { a: "1", b: "2" }],
    ["configMap: {name: web, items: [{key: a, path: x/y}]}", { "x/y": "1" }],
    ["configMap: {name: no, optional: true}", {}],
    ["configMap: {name: web, optional: true, items: [{key: no, path: x}, {key: a, path: y}]}", { y: "1" }],
    ["secret: {secretName: key}", { k: "3" }],
    ["downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}", { name: "web" }],
    [
      "downwardAPI: {items: [{path: m, resourceFieldRef: {containerName: c, resource: limits.memory, divisor: 1M}}]}",
      { m: "3900" },
    ],
    [
      "projected: {sources: [{configMap: {name: web}}, {secret: {name: key, items: [{key: k, path: a}]}}]}",
      { a: "3", b: "2" },
    ],
  ];
  for (const [volume, expected] of cases)
    test(`fills ${volume}`, async () => {
      assert.deepEqual((await filesOf(volume)).files, expected);
    });

  test("makes a token that says what it is, of the form and the claims of a cluster's", async () => {
    const volume =
      "projected: {defaultMode: 0o400, sources: [{serviceAccountToken: {path: t, audience: vault}}]}";
    assert.deepEqual((await filesOf(volume, true)).files, { t: "400" });
    const [head = "", claims = "", signature = ""] = ((await filesOf(volume)).files["t"] ?? "").split(".");
    const decode = (part: string): string => Buffer.from(part, "base64url").toString();
    assert.equal((JSON.parse(decode(head)) as { typ: string }).typ, "JWT");
    const { aud, sub, exp } = JSON.parse(decode(claims)) as Readonly<Record<"aud" | "sub" | "exp", unknown>>;
    assert.deepEqual([aud, sub], [["vault"], "system:serviceaccount:default:default"]);
    assert.ok(Number(exp) > Date.now() / 1000);
    assert.match(decode(signature), /not signed/);
  });

  test("takes the mode of an item, else the volume's", async () => {
    const volume =
      "configMap: {name: web, defaultMode: 0o400, items: [{key: a, path: a, mode: 0o755}, {key: b, path: b}]}";
    assert.deepEqual((await filesOf(volume, true)).files, { a: "755", b: "400" });
    assert.deepEqual((await filesOf("configMap: {name: web}", true)).files, { a: "644", b: "644" });
  });

  test("keeps all but ConfigMaps in memory", async () => {
    assert.equal((await filesOf("configMap: {name: web}")).memoryBytes, undefined);
    assert.equal((await filesOf("secret: {secretName: key}")).memoryBytes, 3_900_000_000n);
  });

  for (const [volume, message] of [
    ["configMap: {name: no}", /ConfigMap "no": it is in none of the files/],
    ["secret: {secretName: key, items: [{key: no, path: x}]}", /volume "v": Secret "key" has no key "no"/],
    ["configMap: {name: web, items: [{key: a, path: ..x}]}", /"\.\.x" is not the path of a file/],
  ] as const)
    test(`refuses ${volume}`, async () => {
      await assert.rejects(filesOf(volume), message);
    });

  const sizes: readonly (readonly [string, string, bigint])[] = [
    ["medium: Memory", "", 3_900_000_000n],
    ["medium: Memory, sizeLimit: 1Mi", "", 1_048_576n],
    ["medium: Memory, sizeLimit: 2G", "resources: {limits: {memory: 1G}}", 1_000_000_000n],
  ];
  for (const [emptyDir, resources, expected] of sizes)
    test(`gives emptyDir {${emptyDir}} with ${resources || "no limit"} ${expected} bytes`, async () => {
      const manifest = await uncheckedPodWith(
        `  containers: [{name: c, image: x, ${resources}}]\n  volumes: [{name: v, emptyDir: {${emptyDir}}}]`,
      );
      const [preparation] = preparationsOf(manifest);
      assert.ok(preparation?.kind === "emptyDir");
      assert.equal(preparation.memoryBytes, expected);
    });

  test("keeps the data of a claim beside the pods, by namespace", async () => {
    const manifest = await uncheckedPodWith(
      "  containers: [{name: c, image: x}]\n  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]",
    );
    const [{ path, claim } = {} as never] = preparationsOf(manifest) as readonly {
      path: string;
      claim: string;
    }[];
    assert.deepEqual([path, claim], ["/state/claims.d/default/data", "default/data"]);
  });
});

describe("volumeMounts()", () => {
  const mounted = async (
    mount: string,
    volume = "emptyDir: {}",
    changes: Partial<VolumeMountsInput> = {},
  ) => {
    const manifest = await uncheckedPodWith(
      `  volumes: [{name: v, ${volume}}]\n  containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /m, ${mount}}]}]`,
    );
    return mountsOf(manifest, changes)[0];
  };

  for (const [volume, expected] of [
    ["configMap: {name: web}", true],
    ["secret: {secretName: key}", true],
    ["downwardAPI: {}", true],
    ["projected: {}", true],
    ["persistentVolumeClaim: {claimName: c, readOnly: true}", true],
    ["persistentVolumeClaim: {claimName: c}", false],
  ] as const)
    test(`mounts ${volume} ${expected ? "read-only" : "writable"}`, async () => {
      assert.equal((await mounted("readOnly: false", volume))?.mount.readonly, expected);
    });

  const recursive: readonly (readonly [string, boolean, boolean | RegExp])[] = [
    ["readOnly: true, recursiveReadOnly: IfPossible", true, true],
    ["readOnly: true, recursiveReadOnly: IfPossible", false, false],
    ["recursiveReadOnly: IfPossible", true, false],
    ["readOnly: true, recursiveReadOnly: IfPossible, mountPropagation: HostToContainer", true, false],
    ["readOnly: true, recursiveReadOnly: Enabled", true, true],
    ["readOnly: true, recursiveReadOnly: Enabled", false, /does not support recursiveReadOnly/],
    ["readOnly: true", true, false],
  ];
  for (const [mount, recursiveReadOnly, expected] of recursive)
    test(`${mount} with ${recursiveReadOnly ? "an able" : "another"} runtime is ${String(expected)}`, async () => {
      const result = mounted(mount, "emptyDir: {}", { recursiveReadOnly });
      if (typeof expected === "boolean") assert.equal((await result)?.mount.recursive_read_only, expected);
      else await assert.rejects(result, expected);
    });

  const expressions: readonly (readonly [string, string | RegExp])[] = [
    ["$(POD)/logs", "web-0/logs"],
    ["$(NONE)", /has no variable "NONE"/],
    ["$(UP)", /must not contain '\.\.'/],
    ["$(ROOT)", /must be a relative path/],
  ];
  for (const [expression, expected] of expressions)
    test(`subPathExpr ${expression} is ${String(expected)}`, async () => {
      const environment = new Map([
        ["POD", "web-0"],
        ["UP", "a/../../b"],
        ["ROOT", "/etc"],
      ]);
      const result = mounted(`subPathExpr: ${expression}`, "emptyDir: {}", { environment });
      if (typeof expected === "string") assert.equal((await result)?.subPath, expected);
      else await assert.rejects(result, expected);
    });
});
