/** The pod CIDRs of UpdateRuntimeConfig, kept over restarts: the kubelet sends them only when it starts. */
import { readFileSync } from "node:fs";
import { writeFileAtomically } from "../../lib/files/atomic-file.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { messageOf } from "../../lib/errors.js";
import { isTable } from "../../lib/files/record-format.js";
import type { Logger } from "../../lib/log.js";

const cidrForm = /^[0-9a-fA-F.:]+\/\d{1,3}$/;

export class PodCidrFile {
  /** Whether a later release wrote the file: it is never written over. */
  #isLater = false;

  constructor(
    private readonly path: string,
    private readonly log: Pick<Logger, "warn">,
  ) {}

  /** Empty without a file, and with a corrupt one, which is logged. */
  read(): readonly string[] {
    try {
      const value: unknown = JSON.parse(readFileSync(this.path, "utf8"));
      this.#isLater = isTable(value) && Number(value["version"]) > 1;
      if (this.#isLater) throw new Error("a later release of dockershim wrote it");
      if (!Array.isArray(value)) throw new Error("not a list");
      return value.filter((cidr): cidr is string => typeof cidr === "string" && cidrForm.test(cidr));
    } catch (error) {
      if (!hasCode(error, "ENOENT"))
        this.log.warn({ path: this.path, err: messageOf(error) }, "cannot read the saved pod CIDRs");
      return [];
    }
  }

  /** A failure is logged: the network plugin must get the CIDRs all the same. */
  async write(cidrs: readonly string[]): Promise<void> {
    try {
      if (this.#isLater)
        throw new Error("a later release of dockershim wrote the file, which is left as it is");
      await writeFileAtomically(this.path, `${JSON.stringify(cidrs)}\n`, {
        mode: 0o600,
        temporaryPrefix: ".dockershim-",
      });
    } catch (error) {
      this.log.warn({ path: this.path, err: messageOf(error) }, "cannot save the pod CIDRs");
    }
  }
}
