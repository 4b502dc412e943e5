import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { fromDockerLabels, madeLabels } from "../../../src/domain/labels.js";
import type { HostConfig } from "../../../src/domain/create-body.js";
import type {
  DNSConfig,
  LinuxPodSandboxConfig,
  LinuxSandboxSecurityContext,
} from "../../../src/domain/cri.js";
import type { NodeFacts } from "../../../src/domain/node-facts.js";
import { ShimError } from "../../../src/lib/errors.js";
import { planContainer } from "../../../src/shim/plan/container-plan.js";
import { planSandbox, type SandboxContext, type SandboxPlan } from "../../../src/shim/plan/sandbox-plan.js";
import { sysctlError } from "../../../src/shim/plan/sysctls.js";
import { ulimitError, ulimitsField } from "../../../src/shim/plan/ulimits.js";
import {
  containerContext,
  createRequest,
  namespaces,
  nodeFacts,
  runRequest,
  sandboxContext,
  sandboxLinux,
  sandboxSecurity,
} from "./builders.js";
import { refusal } from "../../support/refusals.js";

function linuxPlan(linux: Partial<LinuxPodSandboxConfig>, facts: Partial<NodeFacts> = {}): SandboxPlan {
  const context = sandboxContext({ facts: nodeFacts(facts) });
  return planSandbox(runRequest({ linux: sandboxLinux(linux) }), context);
}

function securityPlan(
  security: Partial<LinuxSandboxSecurityContext>,
  context: Partial<SandboxContext> = {},
): HostConfig {
  const linux = sandboxLinux({ security_context: sandboxSecurity(security) });
  return planSandbox(runRequest({ linux }), sandboxContext(context)).body.HostConfig;
}

const dns = { servers: ["10.0.0.10", "fd00::a"], searches: ["a.local", "b.local"], options: ["ndots:5"] };
const ports = [
  { protocol: 2, container_port: 36412, host_port: 36412, host_ip: "fd00::1" },
  { protocol: 0, container_port: 9, host_port: 0, host_ip: "" },
] as const;
const portMappings = [
  { protocol: "sctp", containerPort: 36412, hostPort: 36412, hostIp: "fd00::1" },
  { protocol: "tcp", containerPort: 9, hostPort: 0, hostIp: "" },
];
const inHost = (part: Parameters<typeof namespaces>[0]) =>
  sandboxSecurity({ namespace_options: namespaces(part) });

describe("planSandbox()", () => {
  test("contains everything that the steps after the create need", () => {
    const annotations = { a: "b" };
    const config = { dns_config: dns, port_mappings: ports, annotations, log_directory: "/var/log/p" };
    const { body: _body, alternativeName, ...rest } = planSandbox(runRequest(config), sandboxContext());
    const pod = { namespace: "default", name: "web-0" };
    assert.deepEqual(rest, {
      identity: { ...pod, uid: "uid-1", attempt: 2 },
      name: "k8s_POD_web-0_default_uid-1_2",
      checkpoint: { ...pod, hostNetwork: false, portMappings },
      hostNetwork: false,
      resolvConf: "nameserver 10.0.0.10\nnameserver fd00::a\nsearch a.local b.local\noptions ndots:5\n",
      networkRequest: { ...pod, uid: "uid-1", annotations, portMappings, cgroupParent: "", dns },
      namespaces: { network: 0, pid: 0, ipc: 0 },
      runtimeHandler: "",
      cgroupParent: "",
      logDirectory: "/var/log/p",
    });
    assert.equal(alternativeName(0xbeef), "k8s_POD_web-0_default_uid-1_2_0000beef");
  });

  test("passes the annotations that are allowed to the OCI runtime of engines that take them", () => {
    const request = runRequest({ annotations: { "run.oci.a": "1", other: "2" } });
    const planned = (apiMinor: number, allowedAnnotations: readonly string[]) => {
      const context = sandboxContext({ facts: nodeFacts({ apiMinor }), allowedAnnotations });
      return planSandbox(request, context).body.HostConfig;
    };
    assert.deepEqual(planned(43, ["run.oci."]).Annotations, { "run.oci.a": "1" });
    assert.equal("Annotations" in planned(42, ["run.oci."]), false);
    assert.equal("Annotations" in planned(43, []), false);
  });

  test("with the host's network has no network request, publishes nothing and still has resolv.conf", () => {
    const linux = sandboxLinux({ security_context: inHost({ network: 2 }) });
    const plan = planSandbox(runRequest({ dns_config: dns, port_mappings: ports, linux }), sandboxContext());
    const { hostNetwork, networkRequest, checkpoint, body, resolvConf } = plan;
    assert.deepEqual([hostNetwork, networkRequest, checkpoint.hostNetwork], [true, undefined, true]);
    assert.deepEqual(checkpoint.portMappings, portMappings);
    assert.deepEqual([body.HostConfig.PortBindings, body.ExposedPorts], [undefined, undefined]);
    assert.match(resolvConf ?? "", /^nameserver 10/);
    assert.deepEqual(plan.namespaces, { network: 2, pid: 0, ipc: 0 });
  });

  test("writes resolv.conf for a DNS configuration, or has the engine write it where its files are out of reach", () => {
    const empty = { servers: [], searches: [], options: [] };
    const of = (dns_config: DNSConfig | null, apiOnlyDns: boolean) => {
      const { resolvConf, body } = planSandbox(runRequest({ dns_config }), sandboxContext({ apiOnlyDns }));
      const { Dns, DnsSearch, DnsOptions } = body.HostConfig;
      return [resolvConf, Dns, DnsSearch, DnsOptions];
    };
    const none = [undefined, undefined, undefined];
    assert.deepEqual(of(null, false), [undefined, ...none]);
    assert.deepEqual(of(empty, false), ["", ...none]);
    assert.deepEqual(of({ ...empty, searches: ["a"] }, false), ["search a\n", ...none]);
    assert.deepEqual(of(null, true), [undefined, ...none]);
    // The engine would take empty lists for its own servers, or public ones.
    assert.deepEqual(of(empty, true).slice(0, 3), [undefined, ["127.0.0.1"], ["."]]);
    assert.deepEqual(of(dns, true), [undefined, dns.servers, dns.searches, dns.options]);
  });

  test("asks for the OOM score that the host can give", () => {
    const context = sandboxContext({ oomScoreAdj: (wanted) => Math.max(wanted, -100) });
    assert.equal(planSandbox(runRequest(), context).body.HostConfig.OomScoreAdj, -100);
  });

  test("takes the runtime handlers of the engine, and refuses others with the known ones", () => {
    for (const [handler, runtime] of [
      ["", undefined],
      ["docker", undefined],
      ["runc", "runc"],
      ["runsc", "runsc"],
    ] as const) {
      const plan = planSandbox(runRequest({}, handler), sandboxContext());
      assert.deepEqual([plan.body.HostConfig.Runtime, plan.runtimeHandler], [runtime, handler]);
    }
    const unknown = refusal("invalid", /^RuntimeHandler "kata" not supported: .*"docker", "runc", "runsc"/);
    assert.throws(() => planSandbox(runRequest({}, "kata"), sandboxContext()), unknown);
  });

  const slice = "/kubepods.slice/kubepods-podX.slice";
  for (const [cgroupDriver, cgroup_parent, expected] of [
    ["cgroupfs", slice, slice],
    ["systemd", slice, "kubepods-podX.slice"],
    ["systemd", `${slice}//`, "kubepods-podX.slice"],
    ["none", slice, undefined],
    ["systemd", "", undefined],
    ["systemd", "/kubepods/podX", "refused"],
    ["systemd", "/", "refused"],
    ["cgroupfs", "/kubepods/../../x", "refused"],
  ] as const) {
    test(`with the driver ${cgroupDriver} has the cgroup parent ${JSON.stringify(cgroup_parent)}: ${expected}`, () => {
      const plan = (): SandboxPlan => linuxPlan({ cgroup_parent }, { cgroupDriver });
      const refused = refusal("invalid", /^config\.linux\.cgroup_parent "/);
      if (expected === "refused") {
        assert.throws(plan, refused);
        return;
      }
      assert.equal(plan().body.HostConfig.CgroupParent, expected);
      assert.equal(plan().cgroupParent, cgroup_parent);
    });
  }

  describe("sysctls", () => {
    const notAllowed = refusal("invalid", /^config\.linux\.sysctls\[.*\]: not allowed/);
    for (const [name, options] of [
      ["net.core.somaxconn", { network: 2 }],
      ["net/ipv4/ip_forward", { network: 2 }],
      ["kernel.shmmax", { ipc: 2 }],
      ["fs.mqueue.msg_max", { ipc: 2 }],
    ] as const) {
      test(`${name} needs the pod's own namespace`, () => {
        const plan = (part: Parameters<typeof namespaces>[0]) =>
          linuxPlan({ sysctls: { [name]: "1" }, security_context: inHost(part) }).body.HostConfig.Sysctls;
        assert.throws(() => plan(options), notAllowed);
        assert.deepEqual(plan({}), { [name]: "1" });
      });
    }
    test("of no namespace are refused", () => {
      for (const name of ["kernel.panic", "vm.swappiness", "fs.file-max", "kernel.hostname", "0"])
        assert.throws(() => linuxPlan({ sysctls: { [name]: "1" } }), notAllowed, name);
    });
    const invalid = "invalid argument";
    const missing = "no such file or directory";
    for (const [text, message] of [
      [`runc: write /proc/sys/net/ipv4/ip_forward: ${invalid}: unknown`, `[net.ipv4.ip_forward]: ${invalid}`],
      [`open /proc/sys/net/nothing: ${missing}: unknown`, `[net.nothing]: ${missing}`],
      // As runc 1.3.6 says it, which mounts a /proc of its own.
      [
        `write sysctl x = "x": write fsmount:fscontext:proc/./sys/net/ipv4/x: ${invalid}`,
        `[net.ipv4.x]: ${invalid}`,
      ],
      [
        `unsafe procfs: openat2 fsmount:fscontext:proc/./sys/net/ipv4/gone: ${missing}`,
        `[net.ipv4.gone]: ${missing}`,
      ],
      ["open /proc/self: no such file", undefined],
    ] as const) {
      test(`a start that failed with ${text} is ${message ?? "no error of a sysctl"}`, () => {
        const error = sysctlError(new ShimError("unknown", text));
        const expected = message && `config.linux.sysctls${message}`;
        assert.deepEqual([error?.kind, error?.message], [message && "invalid", expected]);
      });
    }
  });

  const localhost = { profile_type: 2, localhost_ref: "/etc/p.json" } as const;
  const appArmor = { profile_type: 2, localhost_ref: "localhost/prof" } as const;
  const runtimeDefault = { profile_type: 0, localhost_ref: "" } as const;
  const unconfined = { profile_type: 1, localhost_ref: "" } as const;
  const profile = 'seccomp={"defaultAction":"A B"}';
  const both = { seccomp: runtimeDefault, seccomp_profile_path: "unconfined" };
  // Beside no-new-privileges, which every sandbox has.
  for (const [what, security, expected] of [
    ["nothing is the engine's default", {}, []],
    ["RuntimeDefault", { seccomp: runtimeDefault }, []],
    ["Unconfined", { seccomp: unconfined }, ["seccomp=unconfined"]],
    ["Localhost", { seccomp: localhost }, [profile]],
    ["the old text", { seccomp_profile_path: "localhost//etc/p.json" }, [profile]],
    ["the message before the text", both, []],
    ["privileged without seccomp", { privileged: true, seccomp: localhost }, []],
    ["AppArmor", { apparmor: appArmor, seccomp: unconfined }, ["apparmor=prof", "seccomp=unconfined"]],
  ] as const) {
    test(`has the security options of ${what}`, () => {
      const seccompProfile = '{ "defaultAction": "A B" }';
      const context = { seccompProfile, loadedAppArmorProfiles: new Set(["prof"]) };
      const { SecurityOpt = [] } = securityPlan(security, context);
      assert.ok(SecurityOpt.includes("no-new-privileges"));
      const others = SecurityOpt.filter((option) => option !== "no-new-privileges");
      assert.deepEqual(others, expected);
    });
  }

  test("has the node's cgroup namespace when privileged or with cgroup v1, else its own", () => {
    const v2 = { facts: nodeFacts({ cgroupVersion: 2 }) };
    assert.equal(securityPlan({}, v2).CgroupnsMode, "private");
    assert.equal(securityPlan({ privileged: true }, v2).CgroupnsMode, "host");
    assert.equal(planSandbox(runRequest(), sandboxContext(v2)).body.HostConfig.CgroupnsMode, "private");
    assert.equal(securityPlan({}).CgroupnsMode, "host");
  });

  test("an engine with remapped users needs the host's for host namespaces and privileges, and only then", () => {
    const facts = nodeFacts({ security: { ...nodeFacts().security, usernsRemap: true } });
    assert.equal(securityPlan({}, { facts }).UsernsMode, undefined);
    for (const security of [{ privileged: true }, inHost({ network: 2 }), inHost({ pid: 2 })])
      assert.equal(securityPlan(security, { facts }).UsernsMode, "host");
    assert.equal(securityPlan({ privileged: true }).UsernsMode, undefined);
  });

  test("leaves the user to the image, or sends user and group as given", () => {
    const userOf = (security: Partial<LinuxSandboxSecurityContext>) =>
      linuxPlan({ security_context: sandboxSecurity(security) }).body.User;
    assert.equal(userOf({}), undefined);
    assert.equal(userOf({ run_as_user: { value: "7" } }), "7");
    const noUser = refusal("invalid", /run_as_group: runAsGroup is specified without a runAsUser/);
    assert.throws(() => userOf({ run_as_group: { value: "7" } }), noUser);
  });
});

test("composeLabels gives a pod's containers its name as project and theirs as service, which clients do not see", () => {
  const [project, service] = ["com.docker.compose.project", "com.docker.compose.service"];
  const metadata = { name: "web.v1", namespace: "shop", uid: "u1", attempt: 0 };
  const plan = (labels: Record<string, string>, composeLabels: boolean) =>
    planSandbox(runRequest({ metadata, labels }), sandboxContext({ composeLabels })).body.Labels;
  const sandbox = plan({}, true);
  assert.deepEqual([sandbox[project], sandbox[service]], ["shop_web-v1", "POD"]);
  const container = planContainer(createRequest({}, { metadata }), containerContext({ composeLabels: true }));
  assert.deepEqual([container.body.Labels[project], container.body.Labels[service]], ["shop_web-v1", "c1"]);
  assert.deepEqual(fromDockerLabels(madeLabels(sandbox)).labels, {});
  const own = { [project]: "mine" };
  assert.deepEqual(fromDockerLabels(madeLabels(plan(own, true))).labels, own);
  assert.equal(project in plan({}, false), false);
});

describe("ulimits", () => {
  const nofile = { Name: "nofile", Soft: 1024, Hard: 4096 };
  const core = { Name: "core", Soft: -1, Hard: -1 };

  test("of the later list win by name", () => {
    const more = { Name: "nofile", Soft: 2048, Hard: 4096 };
    assert.deepEqual(ulimitsField([nofile, core], [more]), [more, core]);
    assert.equal(ulimitsField([], []), undefined);
  });

  const failed = "OCI runtime create failed:";
  const runc = `${failed} runc create failed: unable to start container process`;
  const flag = /^set the ulimits of --default-ulimits \(nofile=1024:4096, core=-1:-1\): .*CAP_SYS_RESOURCE/;
  for (const [text, limits, expected] of [
    [`${failed} error setting rlimit type 7: operation not permitted`, [nofile, core], flag],
    [`${failed} crun: setrlimit \`RLIMIT_NOFILE\`: Operation not permitted`, [nofile, core], flag],
    [
      `${failed} error setting rlimit type 7: invalid argument`,
      [],
      /^set the ulimits of the engine's configuration: /,
    ],
    ["executable file not found in $PATH", [nofile], undefined],
    // Commands and paths are the words of the pod's author.
    [`${runc}: exec: "setrlimit": executable file not found in $PATH: unknown`, [nofile], undefined],
    [`${runc}: exec: "/bin/setting rlimit": stat /bin/setting rlimit: no such file`, [nofile], undefined],
  ] as const) {
    test(`a start that failed with ${text} is ${expected === undefined ? "no" : "an"} error of ulimits`, () => {
      const error = ulimitError(new Error(text), limits);
      assert.equal(error?.kind, expected && "precondition");
      assert.match(error?.message ?? "", expected ?? /^$/);
      if (expected === flag) assert.ok(error?.message.endsWith(text));
    });
  }
});
