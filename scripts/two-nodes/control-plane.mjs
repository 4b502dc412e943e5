/** etcd, API server, controllers and scheduler, on a host of their own. */
import { writeFile } from "node:fs/promises";
import { addressesOf, bracketed, planOf } from "./addresses.mjs";
import { kubeconfig, makeAuthority, makeCertificate } from "./certificates.mjs";
import { inside } from "./hosts.mjs";

/**
 * @typedef {import("./addresses.mjs").Family} Family
 * @typedef {import("./hosts.mjs").Host} Host
 * @typedef {Readonly<Record<string, string>>} Programs paths by name
 */

export class ControlPlane {
  /**
   * @param {Host} host
   * @param {Programs} programs
   * @param {readonly Family[]} families
   */
  constructor(host, programs, families) {
    this.host = host;
    this.programs = programs;
    this.families = families;
    const [address = ""] = addressesOf("control", families);
    this.server = `https://${bracketed(address)}:6443`;
    this.kubeconfig = inside("admin.kubeconfig");
  }

  async start() {
    const { host, families } = this;
    const pki = host.outside("pki");
    const firsts = families.map((family) => planOf(family).first);
    await makeAuthority(pki, [...addressesOf("control", families), ...firsts, "127.0.0.1"]);
    const admin = await this.kubeconfigOf("admin", "/O=system:masters/CN=admin");
    await writeFile(host.outside("admin.kubeconfig"), admin);
    this.#startEtcd();
    this.#startServer();
    await host.until("ready API server", async () =>
      (await this.kubectl("get", "--raw", "/readyz")) === "ok" ? true : undefined,
    );
    this.#startControllers();
  }

  /** Those of kubectl for an administrator, inside of the host. */
  get kubectlWords() {
    return [this.#program("kubectl"), `--kubeconfig=${this.kubeconfig}`];
  }

  /** @param {readonly string[]} words */
  kubectl(...words) {
    return this.host.run([...this.kubectlWords, ...words]);
  }

  /** @param {readonly string[]} words */
  async get(...words) {
    return JSON.parse(await this.kubectl("get", ...words, "--output=json"));
  }

  /**
   * The configuration of a client, with a certificate of its own.
   * @param {string} name
   * @param {string} subject
   */
  async kubeconfigOf(name, subject) {
    const pki = this.host.outside("pki");
    await makeCertificate(pki, name, subject);
    return kubeconfig(pki, name, this.server);
  }

  /** @param {string} name */
  #program(name) {
    const path = this.programs[name];
    if (path === undefined) throw new Error(`${name} is not among the programs`);
    return path;
  }

  #startEtcd() {
    const [clients, peers] = ["http://127.0.0.1:2379", "http://127.0.0.1:2380"];
    this.host.start("etcd", [
      ...[this.#program("etcd"), `--data-dir=${inside("etcd")}`],
      ...[`--listen-client-urls=${clients}`, `--advertise-client-urls=${clients}`],
      ...[`--listen-peer-urls=${peers}`, `--initial-advertise-peer-urls=${peers}`],
      `--initial-cluster=default=${peers}`,
    ]);
  }

  #startServer() {
    const pki = (/** @type {string} */ file) => inside(`pki/${file}`);
    this.host.start("kube-apiserver", [
      ...[this.#program("kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379", "--allow-privileged"],
      ...["--bind-address=::", `--advertise-address=${addressesOf("control", this.families)[0] ?? ""}`],
      `--service-cluster-ip-range=${this.#ranges("services")}`,
      ...["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"],
      ...[`--client-ca-file=${pki("ca.pem")}`, `--cert-dir=${inside("certificates")}`],
      ...[`--tls-cert-file=${pki("server.pem")}`, `--tls-private-key-file=${pki("server.key")}`],
      ...[`--kubelet-client-certificate=${pki("admin.pem")}`, `--kubelet-client-key=${pki("admin.key")}`],
      "--kubelet-preferred-address-types=InternalIP",
      "--service-account-issuer=https://kubernetes.default.svc",
      ...[
        `--service-account-key-file=${pki("accounts.pem")}`,
        `--service-account-signing-key-file=${pki("accounts.key")}`,
      ],
    ]);
  }

  #startControllers() {
    const common = [`--kubeconfig=${this.kubeconfig}`, "--leader-elect=false", "--bind-address=127.0.0.1"];
    this.host.start("kube-controller-manager", [
      ...[this.#program("kube-controller-manager"), ...common, `--cert-dir=${inside("certificates")}`],
      // Each node gets a part of the pods' range.
      ...["--allocate-node-cidrs", `--cluster-cidr=${this.#ranges("pods")}`],
      `--service-cluster-ip-range=${this.#ranges("services")}`,
      `--service-account-private-key-file=${inside("pki/accounts.key")}`,
      `--root-ca-file=${inside("pki/ca.pem")}`,
    ]);
    this.host.start("kube-scheduler", [this.#program("kube-scheduler"), ...common]);
  }

  /** @param {"pods" | "services"} kind */
  #ranges(kind) {
    return this.families.map((family) => planOf(family)[kind]).join(",");
  }
}
