/** Nodes as directories of files, for `migrate check` and `migrate plan`. */
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export type NodeTree = Readonly<Record<string, string | { readonly linkTo: string }>>;

/** Writes the tree below a new directory, which goes away at the end of the test. */
export async function makeNode(
  t: { after(undo: () => Promise<void>): void },
  tree: NodeTree,
): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), "dockershim-node-"));
  t.after(() => rm(root, { recursive: true, force: true }));
  for (const [path, content] of Object.entries(tree)) {
    const local = join(root, path);
    await mkdir(dirname(local), { recursive: true });
    if (typeof content === "string") await writeFile(local, content);
    else await symlink(content.linkTo, local);
  }
  await chmod(root, 0o755);
  return root;
}

/** As the packages of Kubernetes install it. */
const kubeletUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
`;

const kubeadmDropIn = `# Note: This dropin only works with kubeadm
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`;

const enabled = (name: string): NodeTree => ({
  [`/etc/systemd/system/multi-user.target.wants/${name}`]: { linkTo: `/lib/systemd/system/${name}` },
});

const docker: NodeTree = {
  "/usr/lib/systemd/system/docker.service": `[Unit]
Description=Docker Application Container Engine
After=network-online.target docker.socket firewalld.service containerd.service
Requires=docker.socket

[Service]
Type=notify
EnvironmentFile=-/etc/default/docker
ExecStart=/usr/sbin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock $DOCKER_OPTS
ExecReload=/bin/kill -s HUP $MAINPID
LimitNOFILE=infinity
Delegate=yes
KillMode=process

[Install]
WantedBy=multi-user.target
`,
  "/etc/default/docker":
    '# Use DOCKER_OPTS to modify the daemon startup options.\n#DOCKER_OPTS="--dns 8.8.8.8"\n',
  ...enabled("docker.service"),
  "/etc/hostname": "Node-1\n",
  "/lib": { linkTo: "usr/lib" },
};

const criDocker: NodeTree = {
  "/etc/systemd/system/cri-docker.service": `[Unit]
Description=CRI Interface for Docker Application Container Engine
After=network-online.target firewalld.service docker.service
Requires=cri-docker.socket

[Service]
Type=notify
ExecStart=/usr/bin/cri-dockerd --container-runtime-endpoint fd:// --network-plugin=cni --pod-infra-container-image=registry.k8s.io/pause:3.9
ExecReload=/bin/kill -s HUP $MAINPID
Delegate=yes
KillMode=process

[Install]
WantedBy=multi-user.target
`,
  "/etc/systemd/system/cri-docker.socket": `[Unit]
PartOf=cri-docker.service

[Socket]
ListenStream=%t/cri-dockerd.sock
SocketMode=0660
SocketUser=root
SocketGroup=docker

[Install]
WantedBy=sockets.target
`,
  ...enabled("cri-docker.service"),
  "/etc/systemd/system/sockets.target.wants/cri-docker.socket": {
    linkTo: "/etc/systemd/system/cri-docker.socket",
  },
};

const cni: NodeTree = {
  "/etc/cni/net.d/10-bridge.conflist":
    '{"cniVersion":"0.4.0","name":"pods","plugins":[{"type":"bridge","ipam":{"type":"host-local"}},{"type":"portmap","capabilities":{"portMappings":true}}]}\n',
  "/opt/cni/bin/bridge": "",
  "/opt/cni/bin/portmap": "",
};

/** kubeadm 1.23 with the dockershim inside the kubelet. */
export const kubeadm123: NodeTree = {
  ...docker,
  ...cni,
  "/lib": { linkTo: "usr/lib" },
  "/usr/lib/systemd/system/kubelet.service": kubeletUnit,
  "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": kubeadmDropIn,
  ...enabled("kubelet.service"),
  "/var/lib/kubelet/kubeadm-flags.env":
    'KUBELET_KUBEADM_ARGS="--network-plugin=cni --pod-infra-container-image=k8s.gcr.io/pause:3.6"\n',
  "/etc/default/kubelet": "KUBELET_EXTRA_ARGS=\n",
  "/var/lib/kubelet/config.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# the engine's
cgroupDriver: cgroupfs
clusterDNS:
- 10.96.0.10
staticPodPath: /etc/kubernetes/manifests
`,
};

/** The same with kubenet: no CNI configuration. */
export const kubenet123: NodeTree = {
  ...Object.fromEntries(Object.entries(kubeadm123).filter(([path]) => !path.startsWith("/etc/cni/"))),
  "/var/lib/kubelet/kubeadm-flags.env":
    'KUBELET_KUBEADM_ARGS="--network-plugin=kubenet --non-masquerade-cidr=10.0.0.0/8 --pod-cidr=10.180.0.0/24"\n',
};

/** The same without a network plugin: pods are on Docker's bridge. */
export const noop123: NodeTree = {
  ...kubenet123,
  "/var/lib/kubelet/kubeadm-flags.env":
    'KUBELET_KUBEADM_ARGS="--pod-infra-container-image=k8s.gcr.io/pause:3.6"\n',
};

/** kubeadm 1.30 with cri-dockerd. */
export const kubeadm130: NodeTree = {
  ...docker,
  ...criDocker,
  ...cni,
  "/usr/lib/systemd/system/kubelet.service": kubeletUnit,
  "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": kubeadmDropIn,
  ...enabled("kubelet.service"),
  "/var/lib/kubelet/kubeadm-flags.env":
    'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///var/run/cri-dockerd.sock --pod-infra-container-image=registry.k8s.io/pause:3.9"\n',
  "/var/lib/kubelet/config.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
containerRuntimeEndpoint: ""
staticPodPath: /etc/kubernetes/manifests
`,
};

/** kubeadm 1.34: the endpoint is in the configuration alone, and in kubeadm's file for the node. */
export const kubeadm134: NodeTree = {
  ...kubeadm130,
  "/var/lib/kubelet/kubeadm-flags.env":
    'KUBELET_KUBEADM_ARGS="--pod-infra-container-image=registry.k8s.io/pause:3.10"\n',
  "/var/lib/kubelet/instance-config.yaml": "containerRuntimeEndpoint: unix:///var/run/cri-dockerd.sock\n",
  "/var/lib/kubelet/config.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration   # by kubeadm
cgroupDriver: cgroupfs
containerRuntimeEndpoint: "unix:///var/run/cri-dockerd.sock" # cri-dockerd
shutdownGracePeriod:   0s
`,
};

/** A unit that a package installed, with all flags in ExecStart, over several lines. */
export const plainUnits: NodeTree = {
  ...docker,
  ...cni,
  "/usr/lib/systemd/system/kubelet.service": `[Service]
ExecStart=/usr/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf \\
  --container-runtime=docker \\
  # the network
  --network-plugin cni \\
  --cgroup-driver=cgroupfs
Restart=always
`,
  ...enabled("kubelet.service"),
};

/** After the switch, from cri-dockerd. */
export const ours: NodeTree = {
  ...kubeadm130,
  "/etc/systemd/system/dockershim.service": `[Service]
Type=notify
ExecStart=/opt/dockershim/bin/dockershim --network-plugin=cni

[Install]
WantedBy=multi-user.target
`,
  ...enabled("dockershim.service"),
  "/var/lib/kubelet/kubeadm-flags.env":
    'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///var/run/dockershim.sock --pod-infra-container-image=registry.k8s.io/pause:3.9"\n',
};
