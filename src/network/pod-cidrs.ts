/** The pod CIDRs of the node, by flag, kubelet and the previous process, and their subnets. */
import { messageOf, ShimError } from "../lib/errors.js";
import type { Logger } from "../lib/log.js";
import { isIP } from "node:net";
import type { AddressFamily } from "./iptables/iptables.js";

export interface PodCidrsOptions {
  /** Value of `--pod-cidr`; empty when it is not given. */
  readonly flag: readonly string[];
  /** CIDRs of the kubelet in a previous process. */
  readonly remembered: readonly string[];
  /** Keeps the CIDRs for the next process: the kubelet sends them only when it starts. */
  readonly remember: (cidrs: readonly string[]) => Promise<void>;
  readonly log: Pick<Logger, "info" | "warn">;
}

/** The flag wins; else the kubelet's first valid ones, until then those of the previous process. */
export class PodCidrs {
  #current: readonly string[] = [];
  #fixedBy: "--pod-cidr" | "the kubelet" | undefined;
  #problem: string | undefined;
  #ignored: string | undefined;

  constructor(private readonly options: PodCidrsOptions) {
    const { flag, remembered } = options;
    if (flag.length > 0) {
      this.#current = this.#parse(flag) ?? [];
      this.#fixedBy = "--pod-cidr";
    } else if (remembered.length > 0) this.#current = this.#parse(remembered) ?? [];
  }

  /** With host bits cut off, IPv4 and IPv6 in the order given; empty when none are known. */
  get current(): readonly string[] {
    return this.#current;
  }

  /** Why the given CIDRs are invalid: the kubelet does not show the error of its call. */
  get problem(): string | undefined {
    return this.#current.length === 0 ? this.#problem : undefined;
  }

  /** CIDRs of UpdateRuntimeConfig. New ones that `use` accepts are remembered. */
  async told(cidrs: readonly string[], use: (accepted: readonly string[]) => Promise<void>): Promise<void> {
    const { log, remember } = this.options;
    const wanted = this.#parse(cidrs);
    if (wanted === undefined) return;
    const isNew = wanted.join() !== this.#current.join();
    if (this.#fixedBy !== undefined) {
      if (isNew) this.#ignore(wanted, this.#fixedBy);
      return;
    }
    if (isNew) {
      await use(wanted);
      log.info({ podCidrs: wanted, before: this.#current }, "pod CIDR updated");
    }
    this.#current = wanted;
    this.#fixedBy = "the kubelet";
    if (isNew) await remember(wanted);
  }

  #parse(cidrs: readonly string[]): readonly string[] | undefined {
    try {
      return parsePodSubnets(cidrs).map(({ cidr }) => cidr);
    } catch (error) {
      this.#problem = messageOf(error);
      this.options.log.warn({ podCidrs: cidrs, err: this.#problem }, "ignoring an invalid pod CIDR");
      return undefined;
    }
  }

  /** Logs the same CIDRs only once. */
  #ignore(wanted: readonly string[], fixedBy: string): void {
    if (wanted.join() === this.#ignored) return;
    this.#ignored = wanted.join();
    this.options.log.warn(
      { podCidrs: this.#current, ignored: wanted, fixedBy },
      "ignoring a different pod CIDR until a restart",
    );
  }
}

export interface PodSubnet {
  readonly family: AddressFamily;
  /** In CIDR form, with all host bits zero. */
  readonly cidr: string;
  /** The first address, which the bridge has. */
  readonly gateway: string;
}

/** The address plugin needs a gateway and at least one address more. */
const leastHostBits = 2;

/** At most one of each family. Host bits are masked: kubelets send some. Throws `invalid`. */
export function parsePodSubnets(cidrs: readonly string[]): readonly PodSubnet[] {
  const subnets = cidrs
    .flatMap((text) => text.split(","))
    .map((text) => text.trim())
    .filter((text) => text !== "")
    .map(parseSubnet);
  if (subnets.length === 0) throw new ShimError("invalid", "no pod CIDR");
  for (const family of ["ipv4", "ipv6"]) {
    const same = subnets.filter((subnet) => subnet.family === family).map(({ cidr }) => cidr);
    if (same.length > 1)
      throw new ShimError("invalid", `pod CIDRs ${same.join(" and ")}: of one address family`);
  }
  return subnets;
}

function parseSubnet(text: string): PodSubnet {
  const [, address = "", length = ""] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const version = isIP(address);
  const bits = version === 6 ? 128 : 32;
  const prefixLength = Number(length);
  // "::ffff:1.2.3.4" and zones have no place in a pod network.
  if (version === 0 || length === "" || prefixLength > bits || (version === 6 && /[.%]/.test(address))) {
    throw new ShimError("invalid", `pod CIDR ${JSON.stringify(text)}: not a network, as 10.244.1.0/24`);
  }
  if (bits - prefixLength < leastHostBits) {
    throw new ShimError("invalid", `pod CIDR ${JSON.stringify(text)}: too small for a pod`);
  }
  const hostBits = BigInt(bits - prefixLength);
  const network = (numberOf(address, version) >> hostBits) << hostBits;
  const format = version === 6 ? formatIpv6 : formatIpv4;
  return {
    family: version === 6 ? "ipv6" : "ipv4",
    cidr: `${format(network)}/${prefixLength}`,
    gateway: format(network + 1n),
  };
}

function numberOf(address: string, version: number): bigint {
  if (version === 4) return address.split(".").reduce((sum, part) => sum * 256n + BigInt(part), 0n);
  const [head = "", tail] = address.split("::");
  const groups = (text: string): readonly string[] => (text === "" ? [] : text.split(":"));
  const first = groups(head);
  const last = groups(tail ?? "");
  const zeros = Array.from({ length: 8 - first.length - last.length }, () => "0");
  return [...first, ...(tail === undefined ? [] : zeros), ...last].reduce(
    (sum, group) => sum * 65_536n + BigInt(`0x${group}`),
    0n,
  );
}

function formatIpv4(value: bigint): string {
  return [24n, 16n, 8n, 0n].map((shift) => String((value >> shift) & 255n)).join(".");
}

/** The form of RFC 5952, as tools print it. */
function formatIpv6(value: bigint): string {
  const groups = Array.from({ length: 8 }, (_, index) =>
    ((value >> BigInt(16 * (7 - index))) & 0xffffn).toString(16),
  );
  let [bestStart, bestLength] = [0, 0];
  for (let start = 0; start < 8; start += 1) {
    let length = 0;
    while (groups[start + length] === "0") length += 1;
    if (length > bestLength) [bestStart, bestLength] = [start, length];
  }
  if (bestLength < 2) return groups.join(":");
  return `${groups.slice(0, bestStart).join(":")}::${groups.slice(bestStart + bestLength).join(":")}`;
}
