import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  containerConfig,
  playHashAnnotation,
  sandboxConfig,
} from "../../../../src/play/pod-config/cri-config.js";
import { podHash } from "../../../../src/play/pod-config/hashes.js";
import { containerEnvironment } from "../../../../src/play/pod-config/environment.js";
import { type Image, Signal } from "../../../../src/domain/cri.js";
import { makeFixture, uncheckedPodWith, readOnePod } from "../fake-cri.js";

const { deps } = makeFixture();
const { node, directories } = deps;
const rootImage = { id: "sha256:1", uid: null, username: "" };

async function sandboxOf(spec: string) {
  return sandboxConfig(await uncheckedPodWith(spec), 0, node, directories);
}

async function containerOf(spec: string, image: Pick<Image, "id" | "uid" | "username"> = rootImage) {
  const manifest = await uncheckedPodWith(spec);
  const [container] = manifest.pod.spec.containers;
  assert.ok(container);
  const environment = containerEnvironment({ manifest, container, node, podIps: [] });
  return containerConfig({
    ...{ manifest, container, attempt: 0, image, mounts: [], environment, node, directories },
  });
}

describe("sandboxConfig()", () => {
  test("names and labels the sandbox as the kubelet does, and marks it as made by play", async () => {
    const manifest = await readOnePod(`
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: u1, labels: {app: a, io.kubernetes.pod.name: lie}, annotations: {note: hi}}
spec:
  containers:
    - {name: c, image: x, ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.1}, {containerPort: 53, protocol: UDP}]}
  securityContext: {sysctls: [{name: net/core/somaxconn, value: "1"}, {name: kernel.shm_rmid_forced, value: "1"}]}
`);
    const config = sandboxConfig(manifest, 0, node, directories);
    assert.deepEqual(config.metadata, { name: "web", namespace: "shop", uid: "u1", attempt: 0 });
    assert.equal(config.hostname, "web");
    assert.equal(config.log_directory, "/logs/shop_web_u1");
    assert.deepEqual(config.labels, {
      app: "a",
      "io.kubernetes.pod.name": "web",
      "io.kubernetes.pod.namespace": "shop",
      "io.kubernetes.pod.uid": "u1",
    });
    assert.deepEqual(config.annotations, { note: "hi", [playHashAnnotation]: podHash(manifest) });
    assert.deepEqual(config.port_mappings, [
      { protocol: 0, container_port: 80, host_port: 8080, host_ip: "127.0.0.1" },
      { protocol: 1, container_port: 53, host_port: 0, host_ip: "" },
    ]);
    assert.deepEqual(config.linux?.sysctls, { "net.core.somaxconn": "1", "kernel.shm_rmid_forced": "1" });
    assert.deepEqual(config.linux.security_context?.seccomp, { profile_type: 0 });
  });

  const hostnames: readonly (readonly [string, string | RegExp])[] = [
    ["subdomain: db", "web"],
    ["{subdomain: db, setHostnameAsFQDN: true}", "web.db.default.svc.cluster.local"],
    ["{hostname: first, subdomain: db, setHostnameAsFQDN: true}", "first.db.default.svc.cluster.local"],
    ["setHostnameAsFQDN: true", "web"],
    [`{subdomain: ${"d".repeat(50)}, setHostnameAsFQDN: true}`, /has more than 64 characters/],
  ];
  for (const [fields, expected] of hostnames)
    test(`takes the host name of ${fields.slice(0, 60)}`, async () => {
      const lines = fields.replace(/[{}]/g, "").split(", ").join("\n  ");
      const result = sandboxOf(`  ${lines}\n  containers: [{name: c, image: x}]`);
      if (typeof expected === "string") assert.equal((await result).hostname, expected);
      else await assert.rejects(result, expected);
    });

  test("gives a pod of the host network neither a host name nor port mappings", async () => {
    const config = await sandboxOf(
      "  hostNetwork: true\n  containers: [{name: c, image: x, ports: [{containerPort: 80}]}]",
    );
    assert.equal(config.hostname, "");
    assert.deepEqual(config.port_mappings, []);
    assert.deepEqual(config.linux?.security_context?.namespace_options, { network: 2, ipc: 0, pid: 1 });
  });

  test("is privileged when one of its containers is", async () => {
    const privileged = "{name: i, image: x, securityContext: {privileged: true}}";
    const config = await sandboxOf(`  containers: [{name: c, image: x}]\n  initContainers: [${privileged}]`);
    assert.equal(config.linux?.security_context?.privileged, true);
  });

  const namespaces: readonly (readonly [string, object])[] = [
    ["shareProcessNamespace: true", { network: 0, ipc: 0, pid: 0 }],
    ["hostPID: true", { network: 0, ipc: 0, pid: 2 }],
    ["hostIPC: true", { network: 0, ipc: 2, pid: 1 }],
  ];
  for (const [line, expected] of namespaces)
    test(`maps ${line} to namespace modes`, async () => {
      const config = await sandboxOf(`  ${line}\n  containers: [{name: c, image: x}]`);
      assert.deepEqual(config.linux?.security_context?.namespace_options, expected);
    });

  test("cuts a long pod name to a host name that does not end in a dot", async () => {
    const metadata = `metadata: {name: ${"a".repeat(62)}.bc}`;
    const manifest = await readOnePod(
      `apiVersion: v1\nkind: Pod\n${metadata}\nspec: {containers: [{name: c, image: x}]}`,
    );
    assert.equal(sandboxConfig(manifest, 0, node, directories).hostname, "a".repeat(62));
  });
});

describe("containerConfig()", () => {
  test("expands variables in command, args and environment", async () => {
    const config = await containerOf(
      "  containers: [{name: c, image: busybox:1, command: [sh, $(A)], args: [$(B), $(C)], env: [{name: A, value: '1'}, {name: B, value: $(A)2}], workingDir: /w, stdin: true, tty: true}]",
    );
    assert.deepEqual(config.command, ["sh", "1"]);
    assert.deepEqual(config.args, ["12", "$(C)"]);
    const texts = config.envs?.map(({ key, value }) => `${String(key)}=${String(value)}`);
    assert.deepEqual(texts, ["A=1", "B=12"]);
    assert.equal(config.working_dir, "/w");
    assert.deepEqual([config.stdin, config.stdin_once, config.tty], [true, false, true]);
    assert.deepEqual(config.image, { image: "sha256:1", user_specified_image: "busybox:1" });
    assert.equal(config.log_path, "c/0.log");
    assert.equal(config.annotations?.["io.kubernetes.pod.terminationGracePeriod"], "30");
  });

  const user = (value: string) => ({ run_as_user: { value } });
  const contexts: readonly (readonly [string, string, object])[] = [
    ["user and group", "{runAsUser: 5, runAsGroup: 6}|{}", { ...user("5"), run_as_group: { value: "6" } }],
    ["the container's user over the pod's", "{runAsUser: 5}|{runAsUser: 7}", user("7")],
    ["user 0, which is not the same as none", "{runAsUser: 5}|{runAsUser: 0}", user("0")],
    [
      "fsGroup and supplementalGroups",
      "{fsGroup: 1, supplementalGroups: [2, 3], supplementalGroupsPolicy: Strict}|{}",
      { supplemental_groups: ["1", "2", "3"], supplemental_groups_policy: 1 },
    ],
    ["no profile as unconfined", "{}|{}", { seccomp: { profile_type: 1 } }],
    [
      "the container's seccomp profile over the pod's",
      "{seccompProfile: {type: RuntimeDefault}}|{seccompProfile: {type: Localhost, localhostProfile: a/b.json}}",
      { seccomp: { profile_type: 2, localhost_ref: "/seccomp/a/b.json" } },
    ],
    [
      "the pod's seccomp profile",
      "{seccompProfile: {type: RuntimeDefault}}|{}",
      { seccomp: { profile_type: 0, localhost_ref: "" } },
    ],
    [
      "AppArmor, in the old field too",
      "{appArmorProfile: {type: Localhost, localhostProfile: p}}|{}",
      { apparmor: { profile_type: 2, localhost_ref: "p" }, apparmor_profile: "localhost/p" },
    ],
    ["SELinux options of the pod", "{seLinuxOptions: {level: s0}}|{}", { selinux_options: { level: "s0" } }],
    [
      "capabilities",
      "{}|{capabilities: {add: [NET_ADMIN], drop: [ALL]}}",
      { capabilities: { add_capabilities: ["NET_ADMIN"], drop_capabilities: ["ALL"] } },
    ],
    ["a read-only root", "{}|{readOnlyRootFilesystem: true}", { readonly_rootfs: true }],
    ["no new privileges", "{}|{allowPrivilegeEscalation: false}", { no_new_privs: true }],
    ["escalation unless forbidden", "{}|{}", { no_new_privs: false, privileged: false }],
    ["privileges", "{}|{privileged: true}", { privileged: true }],
    ["an unmasked /proc", "{}|{procMount: Unmasked}", { masked_paths: [], readonly_paths: [] }],
  ];
  for (const [what, spec, expected] of contexts)
    test(`takes ${what}`, async () => {
      const [pod = "", container = ""] = spec.split("|");
      const config = await containerOf(
        `  securityContext: ${pod}\n  containers: [{name: c, image: x, securityContext: ${container}}]`,
      );
      assert.deepEqual({ ...config.linux?.security_context, ...expected }, config.linux?.security_context);
    });

  test("says in annotations how to end the container, and its ports", async () => {
    const { annotations } = await containerOf(
      "  containers: [{name: c, image: x, ports: [{containerPort: 80}], lifecycle: {preStop: {sleep: {seconds: 1}}}}]",
    );
    assert.equal(annotations?.["io.kubernetes.container.preStopHandler"], '{"sleep":{"seconds":1}}');
    assert.equal(annotations["io.kubernetes.container.ports"], '[{"containerPort":80,"protocol":"TCP"}]');
  });

  for (const [line, expected] of [
    ["restartPolicy: Never", { network: 0, ipc: 0, pid: 3, target_id: "id-1" }],
    ["shareProcessNamespace: true", { network: 0, ipc: 0, pid: 0 }],
  ] as const)
    test(`lets an ephemeral container see its target's processes, with ${line}`, async () => {
      const manifest = await uncheckedPodWith(`  ${line}\n  containers: [{name: c, image: x}]`);
      const container = { name: "debug", image: "x", targetContainerName: "c" };
      const facts = { manifest, container, attempt: 0, image: rootImage, mounts: [], node, directories };
      const config = containerConfig({ ...facts, environment: new Map(), targetId: "id-1" });
      assert.deepEqual(config.linux?.security_context?.namespace_options, expected);
    });

  test("takes the stop signal, and refuses one that does not exist", async () => {
    const withSignal = (name: string) =>
      containerOf(`  containers: [{name: c, image: x, lifecycle: {stopSignal: ${name}}}]`);
    assert.equal((await withSignal("SIGRTMIN+3")).stop_signal, Signal.SIGNAL_SIGRTMINPLUS3);
    assert.equal((await containerOf("  containers: [{name: c, image: x}]")).stop_signal, undefined);
    await assert.rejects(withSignal("SIGNOT"), /there is no such signal/);
  });

  test("masks the kernel's secrets by default", async () => {
    const { linux } = await containerOf("  containers: [{name: c, image: x}]");
    const { masked_paths, readonly_paths } = linux?.security_context ?? {};
    assert.ok(masked_paths?.includes("/proc/kcore"));
    assert.ok(readonly_paths?.includes("/proc/sys"));
  });

  type ImageUser = Pick<Image, "id" | "uid" | "username">;
  const ofUser = (value: string): ImageUser => ({ id: "i", uid: { value }, username: "" });
  const ofName: ImageUser = { id: "i", uid: null, username: "web" };
  for (const [what, image, expected] of [
    ["a number", ofUser("9"), user("9")],
    ["a name", ofName, { run_as_username: "web" }],
    ["nothing, which is root", rootImage, user("0")],
  ] as const)
    test(`takes the image's user when that is ${what}`, async () => {
      const { linux } = await containerOf("  containers: [{name: c, image: x}]", image);
      const { run_as_user, run_as_username } = linux?.security_context ?? {};
      assert.deepEqual(JSON.parse(JSON.stringify({ run_as_user, run_as_username })), expected);
    });

  const nonRoot: readonly (readonly [string, string, ImageUser, RegExp?])[] = [
    ["runAsUser 0", "runAsUser: 0,", rootImage, /runAsUser is 0/],
    ["an image without user", "", rootImage, /runs as root/],
    ["an image of user 0", "", ofUser("0"), /runs as root/],
    ["an image with a user name", "", ofName, /"web" is not a number/],
    ["an image of user 9", "", ofUser("9")],
    ["runAsUser 9", "runAsUser: 9,", rootImage],
  ];
  for (const [what, user, image, expected] of nonRoot)
    test(`${expected === undefined ? "accepts" : "refuses"} ${what} with runAsNonRoot`, async () => {
      const spec = `  containers: [{name: c, image: x, securityContext: {${user} runAsNonRoot: true}}]`;
      if (expected === undefined) await containerOf(spec, image);
      else await assert.rejects(containerOf(spec, image), expected);
    });
});
