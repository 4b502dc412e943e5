import type { CgroupSettings } from "../ports/host.js";

export interface ContainerRecord { readonly version: 1; readonly containerId: string; readonly cgroup: CgroupSettings }
export class ContainerRecords {
  static async open(_d: string, _l: unknown): Promise<ContainerRecords> { await Promise.resolve(); return new ContainerRecords(); }
  all(): Iterable<ContainerRecord> { return []; }
  get(_id: string): ContainerRecord | undefined { return undefined; }
  async put(_r: ContainerRecord): Promise<void> { await Promise.resolve(); }
  async merge(_id: string, _c: CgroupSettings): Promise<void> { await Promise.resolve(); }
  async remove(_id: string): Promise<void> { await Promise.resolve(); }
}
