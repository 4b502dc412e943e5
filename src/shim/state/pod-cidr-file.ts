/** The pod CIDRs that the kubelet told, kept over restarts of this program: the kubelet tells them only when it starts. */
import { readFile } from "node:fs/promises";
import { writeFileAtomically } from "../lib/files/atomic-file.js";
import { hasCode } from "../lib/files/file-errors.js";
import { messageOf } from "../lib/errors.js";
import type { Logger } from "../lib/log.js";

const cidrForm = /^[0-9a-fA-F.:]+\/\d{1,3}$/;

export class PodCidrFile {
  constructor(
    private readonly path: string,
    private readonly log: Pick<Logger, "warn">,
  ) {}

  /** Empty when none are known; a file that cannot be understood is reported and counts as none. */
  async read(): Promise<readonly string[]> {
    try {
      const value: unknown = JSON.parse(await readFile(this.path, "utf8"));
      if (!Array.isArray(value)) throw new Error("not a list");
      return value.filter((cidr): cidr is string => typeof cidr === "string" && cidrForm.test(cidr));
    } catch (error) {
      if (!hasCode(error, "ENOENT"))
        this.log.warn({ path: this.path, err: messageOf(error) }, "pod CIDRs cannot be read");
      return [];
    }
  }

  /** A disk that cannot keep them must not keep them from the plugin. */
  async write(cidrs: readonly string[]): Promise<void> {
    try {
      await writeFileAtomically(this.path, `${JSON.stringify(cidrs)}\n`, {
        mode: 0o600,
        temporaryPrefix: ".dockershim-",
      });
    } catch (error) {
      this.log.warn({ path: this.path, err: messageOf(error) }, "pod CIDRs cannot be remembered");
    }
  }
}
