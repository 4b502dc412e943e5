/** Which pod CIDRs a node has, when the flag, the kubelet and the last run of this program name different ones. */
import { messageOf } from "../shim/lib/errors.js";
import type { Logger } from "../shim/lib/log.js";
import { parsePodSubnets } from "./kubenet/pod-subnets.js";

export interface PodCidrsOptions {
  /** Value of `--pod-cidr`; empty when it is not given. */
  readonly flag: readonly string[];
  /** What the kubelet told an earlier run. */
  readonly remembered: readonly string[];
  /** Keeps what the kubelet told for the next run: it tells only when it starts itself. */
  readonly remember: (cidrs: readonly string[]) => Promise<void>;
  readonly log: Pick<Logger, "info" | "warn">;
}

/**
 * The flag wins. Without it, the first that the kubelet tells and that make sense, until the program ends: a node keeps
 * its pod CIDR for life, and dockershim, too, ignored further ones. Until then those of the last run.
 */
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

  /** Why there are none, when some came that make no sense: the kubelet does not show the error of its call. */
  get problem(): string | undefined {
    return this.#current.length === 0 ? this.#problem : undefined;
  }

  /** What the kubelet tells. `use` is called with what is new to the plugin; what it accepts is remembered. */
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
      log.info({ podCidrs: wanted, before: this.#current }, "the kubelet told the pod CIDR");
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
      this.options.log.warn(
        { podCidrs: cidrs, err: this.#problem },
        "ignoring a pod CIDR that makes no sense",
      );
      return undefined;
    }
  }

  /** The kubelet may say it again and again. */
  #ignore(wanted: readonly string[], fixedBy: string): void {
    if (wanted.join() === this.#ignored) return;
    this.#ignored = wanted.join();
    this.options.log.warn(
      { podCidrs: this.#current, ignored: wanted, fixedBy },
      "ignoring another pod CIDR until a restart",
    );
  }
}
