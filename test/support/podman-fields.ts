/** The fields of the documentation of `podman kube play`, each with a manifest that has it. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };
type Podman = "yes" | "no" | "N/A" | `${"yes" | "no"} (${string})`;
/** Path of the field, podman's state, a value for the field; other fields that it needs. */
export type Row = readonly [
  field: string,
  podman: Podman,
  value: Json,
  others?: Readonly<Record<string, Json>>,
];

export interface Section {
  readonly title: string;
  /** The path of the fields, in the object. */
  readonly place: string;
  readonly object: Json;
  readonly rows: readonly Row[];
}

const container = { name: "c", image: "example.com/a:1" };
const template = { metadata: { labels: { app: "a" } }, spec: { containers: [container] } };
export const pod = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "a" },
  spec: { containers: [container] },
};
const workload = (kind: string): Json => ({
  apiVersion: "apps/v1",
  kind,
  metadata: { name: "a" },
  spec: { selector: { matchLabels: { app: "a" } }, template },
});
const seLinux: readonly Row[] = ["level", "role", "type", "user"].map((name) => [
  `securityContext.seLinuxOptions.${name}`,
  "yes",
  name === "level" ? "s0" : `a_${name}`,
]);
const seccomp: readonly Row[] = [
  ["securityContext.seccompProfile.type", "no", "RuntimeDefault"],
  [
    "securityContext.seccompProfile.localhostProfile",
    "no",
    "a.json",
    { "securityContext.seccompProfile.type": "Localhost" },
  ],
];
const windows: readonly Row[] = [
  ["securityContext.windowsOptions.gmsaCredentialSpec", "no", "a"],
  ["securityContext.windowsOptions.hostProcess", "no", true],
  ["securityContext.windowsOptions.runAsUserName", "no", "a"],
];
const affinity: Json = { preferredDuringSchedulingIgnoredDuringExecution: [] };
const toleration = { "tolerations.0.key": "a", "tolerations.0.operator": "Exists" };
const spread = {
  "topologySpreadConstraints.0.maxSkew": 1,
  "topologySpreadConstraints.0.topologyKey": "zone",
  "topologySpreadConstraints.0.whenUnsatisfiable": "ScheduleAnyway",
};
const volume = { "^spec.volumes": [{ name: "v", emptyDir: {} }] };
const mount = { ...volume, "volumeMounts.0.name": "v", "volumeMounts.0.mountPath": "/v" };
const named = { "env.0.name": "A" };
const probe = { exec: { command: ["true"] } };

export const sections: readonly Section[] = [
  {
    ...{ title: "Pod", place: "spec", object: pod },
    rows: [
      ["containers", "yes", [container]],
      ["initContainers", "yes", [{ ...container, name: "i" }]],
      ["imagePullSecrets", "no", [{ name: "s" }]],
      ["enableServiceLinks", "no", false],
      ["os.name", "no", "linux"],
      ["volumes", "yes", [{ name: "v", emptyDir: {} }]],
      ["nodeSelector", "N/A", { a: "b" }],
      ["nodeName", "N/A", "node"],
      ["affinity.nodeAffinity", "N/A", affinity],
      ["affinity.podAffinity", "N/A", affinity],
      ["affinity.podAntiAffinity", "N/A", affinity],
      ["tolerations.0.key", "N/A", "a", toleration],
      ["tolerations.0.operator", "N/A", "Exists", toleration],
      ["tolerations.0.effect", "N/A", "NoSchedule", toleration],
      ["tolerations.0.tolerationSeconds", "N/A", 5, { ...toleration, "tolerations.0.effect": "NoExecute" }],
      ["schedulerName", "N/A", "a"],
      ["runtimeClassName", "no", "a"],
      ["priorityClassName", "no", "a"],
      ["priority", "no", 5],
      ["topologySpreadConstraints.0.maxSkew", "N/A", 1, spread],
      ["topologySpreadConstraints.0.topologyKey", "N/A", "zone", spread],
      ["topologySpreadConstraints.0.whenUnsatisfiable", "N/A", "ScheduleAnyway", spread],
      ["topologySpreadConstraints.0.labelSelector", "N/A", {}, spread],
      ["topologySpreadConstraints.0.minDomains", "N/A", 1, spread],
      ["restartPolicy", "yes", "OnFailure"],
      ["terminationGracePeriodSeconds", "yes", 5],
      ["activeDeadlineSeconds", "no", 5],
      ["readinessGates.0.conditionType", "no", "example.com/a"],
      ["hostname", "yes", "a"],
      ["setHostnameAsFQDN", "no", true],
      ["subdomain", "no", "a"],
      ["hostAliases.0.hostnames", "yes", ["a"], { "hostAliases.0.ip": "10.0.0.1" }],
      ["hostAliases.0.ip", "yes", "10.0.0.1", { "hostAliases.0.hostnames": ["a"] }],
      ["dnsConfig.nameservers", "yes", ["10.0.0.1"]],
      ["dnsConfig.options.0.name", "yes", "ndots"],
      ["dnsConfig.options.0.value", "yes", "1", { "dnsConfig.options.0.name": "ndots" }],
      ["dnsConfig.searches", "yes", ["example.com"]],
      ["dnsPolicy", "no", "Default"],
      ["hostNetwork", "yes", true],
      ["hostPID", "yes", true],
      ["hostIPC", "yes", true],
      ["shareProcessNamespace", "yes", true],
      ["serviceAccountName", "no", "a"],
      ["automountServiceAccountToken", "no", true],
      ["securityContext.runAsUser", "yes", 5],
      ["securityContext.runAsNonRoot", "no", true],
      ["securityContext.runAsGroup", "yes", 5, { "securityContext.runAsUser": 5 }],
      ["securityContext.supplementalGroups", "yes", [5]],
      ["securityContext.fsGroup", "no", 5],
      ["securityContext.fsGroupChangePolicy", "no", "OnRootMismatch", { "securityContext.fsGroup": 5 }],
      ...seccomp,
      ...seLinux,
      [
        "securityContext.sysctls.0.name",
        "yes",
        "net.ipv4.ip_forward",
        { "securityContext.sysctls.0.value": "1" },
      ],
      [
        "securityContext.sysctls.0.value",
        "yes",
        "1",
        { "securityContext.sysctls.0.name": "net.ipv4.ip_forward" },
      ],
      ...windows,
    ],
  },
  {
    ...{ title: "Container", place: "spec.containers.0", object: pod },
    rows: [
      ["name", "yes", "c"],
      ["image", "yes", "example.com/a:1"],
      ["imagePullPolicy", "yes", "Always"],
      ["command", "yes", ["sh"]],
      ["args", "yes", ["a"]],
      ["workingDir", "yes", "/a"],
      ["ports.0.containerPort", "yes", 80],
      ["ports.0.hostIP", "yes", "127.0.0.1", { "ports.0.containerPort": 80, "ports.0.hostPort": 80 }],
      ["ports.0.hostPort", "yes", 80, { "ports.0.containerPort": 80 }],
      ["ports.0.name", "yes", "http", { "ports.0.containerPort": 80 }],
      ["ports.0.protocol", "yes", "UDP", { "ports.0.containerPort": 80 }],
      ["env.0.name", "yes", "A"],
      ["env.0.value", "yes", "a", named],
      ...(["configMap", "secret"] as const).flatMap((kind): readonly Row[] => {
        const from = `env.0.valueFrom.${kind}KeyRef`;
        const whole = { ...named, [`${from}.name`]: "o", [`${from}.key`]: "k", [`${from}.optional`]: true };
        return [
          [`${from}.key`, "yes", "k", whole],
          [`${from}.name`, "yes", "o", whole],
          [`${from}.optional`, "yes", true, whole],
        ];
      }),
      ["env.0.valueFrom.fieldRef", "yes", { fieldPath: "metadata.name" }, named],
      ["env.0.valueFrom.resourceFieldRef", "yes", { resource: "limits.cpu" }, named],
      ["envFrom.0.configMapRef.name", "yes", "o", { "envFrom.0.configMapRef.optional": true }],
      ["envFrom.0.configMapRef.optional", "yes", true, { "envFrom.0.configMapRef.name": "o" }],
      ["envFrom.0.prefix", "no", "A_", { "envFrom.0.configMapRef": { name: "o", optional: true } }],
      ["envFrom.0.secretRef.name", "yes", "o", { "envFrom.0.secretRef.optional": true }],
      ["envFrom.0.secretRef.optional", "yes", true, { "envFrom.0.secretRef.name": "o" }],
      ["volumeMounts.0.mountPath", "yes", "/v", mount],
      ["volumeMounts.0.name", "yes", "v", mount],
      ["volumeMounts.0.mountPropagation", "no", "HostToContainer", mount],
      ["volumeMounts.0.readOnly", "yes", true, mount],
      ["volumeMounts.0.subPath", "yes", "a", mount],
      ["volumeMounts.0.subPathExpr", "no", "$(A)", { ...mount, env: [{ name: "A", value: "a" }] }],
      ["volumeDevices.0.devicePath", "no", "/dev/a", { "volumeDevices.0.name": "v" }],
      ["volumeDevices.0.name", "no", "v", { "volumeDevices.0.devicePath": "/dev/a" }],
      ["resources.limits", "yes", { cpu: "1" }],
      ["resources.requests", "yes", { cpu: "1" }],
      ["lifecycle.postStart", "no", probe],
      ["lifecycle.preStop", "no", probe],
      ["lifecycle.stopSignal", "yes", "SIGINT", { "^spec.os": { name: "linux" } }],
      ["terminationMessagePath", "no", "/a"],
      ["terminationMessagePolicy", "no", "FallbackToLogsOnError"],
      ["livenessProbe", "yes", probe],
      ["readinessProbe", "no", probe],
      ["startupProbe", "no", probe],
      ["securityContext.runAsUser", "yes", 5],
      ["securityContext.runAsNonRoot", "no", true],
      ["securityContext.runAsGroup", "yes", 5, { "securityContext.runAsUser": 5 }],
      ["securityContext.readOnlyRootFilesystem", "yes", true],
      ["securityContext.procMount", "yes", "Default"],
      ["securityContext.privileged", "yes", true],
      ["securityContext.allowPrivilegeEscalation", "yes", false],
      ["securityContext.capabilities.add", "yes", ["CHOWN"]],
      ["securityContext.capabilities.drop", "yes", ["ALL"]],
      ...seccomp,
      ...seLinux,
      ...windows,
      ["stdin", "no", true],
      ["stdinOnce", "no", true, { stdin: true }],
      ["tty", "no", true],
    ],
  },
  {
    ...{ title: "PersistentVolumeClaim", place: "spec" },
    object: {
      ...{ apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name: "a" } },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    },
    rows: [
      ["volumeName", "no", "a"],
      ["storageClassName", "yes", "a"],
      ["volumeMode", "no", "Filesystem"],
      ["accessModes", "yes", ["ReadWriteOnce"]],
      ["selector", "no", {}],
      ["resources.limits", "no", { storage: "1Gi" }],
      ["resources.requests", "yes", { storage: "1Gi" }],
    ],
  },
  {
    ...{ title: "ConfigMap", place: "" },
    object: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } },
    rows: [
      ["binaryData", "yes", { a: "YQ==" }],
      ["data", "yes", { a: "b" }],
      ["immutable", "no", true],
    ],
  },
  {
    ...{ title: "Deployment", place: "spec", object: workload("Deployment") },
    rows: [
      ["replicas", "yes (always 1 pod)", 2],
      ["selector", "yes", { matchLabels: { app: "a" } }],
      ["template", "yes", template],
      ["minReadySeconds", "no", 5],
      ["strategy.type", "no", "RollingUpdate"],
      ["strategy.rollingUpdate.maxSurge", "no", 1, { "strategy.type": "RollingUpdate" }],
      ["strategy.rollingUpdate.maxUnavailable", "no", 1, { "strategy.type": "RollingUpdate" }],
      ["revisionHistoryLimit", "no", 5],
      ["progressDeadlineSeconds", "no", 60],
      ["paused", "no", true],
    ],
  },
  {
    ...{ title: "DaemonSet", place: "spec", object: workload("DaemonSet") },
    rows: [
      ["selector", "yes", { matchLabels: { app: "a" } }],
      ["template", "yes", template],
      ["minReadySeconds", "no", 5],
      ["updateStrategy.type", "no", "RollingUpdate"],
      ["updateStrategy.rollingUpdate.maxSurge", "no", 1, { "updateStrategy.type": "RollingUpdate" }],
      ["updateStrategy.rollingUpdate.maxUnavailable", "no", 0, { "updateStrategy.type": "RollingUpdate" }],
      ["revisionHistoryLimit", "no", 5],
    ],
  },
  {
    ...{ title: "Job", place: "spec" },
    object: {
      ...{ apiVersion: "batch/v1", kind: "Job", metadata: { name: "a" } },
      spec: { template: { spec: { restartPolicy: "Never", containers: [container] } } },
    },
    rows: [
      ["activeDeadlineSeconds", "no", 60],
      [
        "selector",
        "no (set by Kubernetes)",
        { matchLabels: { app: "a" } },
        {
          manualSelector: true,
          template: {
            metadata: { labels: { app: "a" } },
            spec: { restartPolicy: "Never", containers: [container] },
          },
        },
      ],
      ["template", "yes", { spec: { restartPolicy: "Never", containers: [container] } }],
      ["backoffLimit", "no", 2],
      ["completionMode", "no", "Indexed", { completions: 2 }],
      ["completions", "no (always 1)", 2],
      ["manualSelector", "no", false],
      ["parallelism", "no (always 1)", 2],
      [
        "podFailurePolicy",
        "no",
        { rules: [{ action: "FailJob", onExitCodes: { operator: "In", values: [42] } }] },
      ],
      ["suspend", "no", true],
      ["ttlSecondsAfterFinished", "no", 5],
    ],
  },
];
