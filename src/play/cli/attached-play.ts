/** The supervisor leaves the pods of an attached play alone while its process lives. */
import { ShimError } from "../../lib/errors.js";
import type { ManifestFile } from "../manifests/documents.js";
import { type HeldClaim, holdClaim } from "../store/play-claims.js";
import type { PlayContext } from "./play-context.js";

export class AttachedPlay {
  #isDetached: boolean;
  /** The supervisor had some of the pods. */
  #wasKept = false;
  #claim: HeldClaim | undefined;
  #storedId: string | undefined;

  constructor(private readonly context: Pick<PlayContext, "options" | "store" | "report">) {
    this.#isDetached = context.options.detach === true;
  }

  /** Whether the supervisor has the pods when this play has ended. */
  get isDetached(): boolean {
    return this.#isDetached;
  }

  /** Before workloads are applied. Those of the supervisor are taken from it for the time being. */
  async claim(names: ReadonlySet<string>): Promise<void> {
    const { store, report } = this.context;
    const stored = await store.list(report);
    this.#wasKept ||= stored.some(({ workloads }) => workloads.some((name) => names.has(name)));
    this.#isDetached ||= this.#wasKept;
    if (!this.#isDetached) return;
    if (this.#claim === undefined) this.#claim = await holdClaim(store.directory, names);
    else await this.#claim.change(names);
  }

  /** What was applied is what the supervisor goes on with, should this process be killed. */
  async applied(texts: readonly ManifestFile[], names: ReadonlySet<string>): Promise<void> {
    if (this.#isDetached) await this.#store(texts, names);
  }

  /** `kept`: what no other play has taken or removed; undefined when nothing was applied. */
  async end(texts: readonly ManifestFile[], kept: ReadonlySet<string> | undefined): Promise<void> {
    const { options, store, report } = this.context;
    if (this.#claim === undefined) return;
    if (kept === undefined) {
      await (this.#wasKept ? this.#claim.abandon() : this.#claim.release());
      return;
    }
    try {
      await this.#store(texts, kept);
    } catch (error) {
      await this.#claim.abandon();
      throw ShimError.from(error).within("leave the pods to the supervisor");
    }
    await this.#claim.release();
    if (kept.size === 0) return;
    const { ensureSupervisor } = await import("./play-supervisor.js");
    await ensureSupervisor(store, options);
    report(`the pods are left to the supervisor, whose log is ${store.logPath}`);
  }

  async #store(files: readonly ManifestFile[], names: ReadonlySet<string>): Promise<void> {
    const { options, store } = this.context;
    const { replicas = [], schedule = false, localVolumes = false, fast = false } = options;
    const before = this.#storedId;
    if (names.size > 0)
      this.#storedId = await store.save({
        files,
        replicas,
        schedule,
        localVolumes,
        fast,
        workloads: [...names],
      });
    if (before !== undefined) await store.remove(before);
  }
}
