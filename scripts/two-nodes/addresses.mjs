/** The addresses of a cluster of two nodes: those of the hosts, of the pods and of the Services, by family. */

/**
 * @typedef {"ipv4" | "ipv6"} Family
 * @typedef {(typeof hosts)[number]} HostName
 */

export const hosts = /** @type {const} */ (["control", "node-a", "node-b"]);
export const nodeNames = /** @type {const} */ (["node-a", "node-b"]);

/** @type {Readonly<Record<Family, { hosts: readonly string[], bits: number, pods: string, services: string, first: string, all: string }>>} */
const plan = {
  ipv4: {
    hosts: ["10.60.0.1", "10.60.0.11", "10.60.0.12"],
    bits: 24,
    pods: "10.61.0.0/16",
    services: "10.62.0.0/16",
    first: "10.62.0.1",
    all: "0.0.0.0/0",
  },
  ipv6: {
    hosts: ["fd60::1", "fd60::11", "fd60::12"],
    bits: 64,
    pods: "fd61::/48",
    services: "fd62::/112",
    first: "fd62::1",
    all: "::/0",
  },
};

/** @type {Readonly<Record<string, readonly Family[]>>} */
export const stacks = { ipv4: ["ipv4"], ipv6: ["ipv6"], dual: ["ipv4", "ipv6"] };

/** @param {Family} family */
export const planOf = (family) => plan[family];

/**
 * @param {HostName} host
 * @param {readonly Family[]} families
 */
export const addressesOf = (host, families) =>
  families.map((family) => plan[family].hosts[hosts.indexOf(host)] ?? "");

/** @param {string} address @returns {Family} */
export const familyOf = (address) => (address.includes(":") ? "ipv6" : "ipv4");

/** For a URL. @param {string} address */
export const bracketed = (address) => (address.includes(":") ? `[${address}]` : address);
