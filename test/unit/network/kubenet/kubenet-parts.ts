import { ShimError } from "../../../../src/lib/errors.js";
import { KubenetSource } from "../../../../src/network/kubenet/kubenet-source.js";
import { ManualClock } from "../../../fakes/manual-clock.js";
import { recordingLog } from "../../../fakes/recording-log.js";

/** Plugins as files that a test puts there and takes away; each speaks the versions given. */
export class FakePlugins {
  readonly binDirs = ["/opt/cni/bin", "/usr/lib/cni"];
  asked = 0;

  constructor(readonly installed: Map<string, readonly string[]>) {}

  async find(type: string): Promise<{ type: string; path: string; fingerprint: string }> {
    const versions = this.installed.get(type);
    if (versions === undefined) throw new ShimError("unavailable", `failed to find plugin "${type}"`);
    return { type, path: `/opt/cni/bin/${type}`, fingerprint: `${type} ${versions.join()}` };
  }

  async supportedBy(type: string): Promise<readonly string[]> {
    this.asked += 1;
    return this.installed.get(type) ?? [];
  }
}

export function sourceOf(plugins: FakePlugins, log = recordingLog()) {
  const clock = new ManualClock();
  const parts = { invoker: plugins, versions: plugins, hairpinMode: "hairpin-veth", log, clock } as const;
  return { log, clock, source: new KubenetSource(parts) };
}

const most = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0"];

/** As Debian 12 has them. */
export function debianPlugins(...without: readonly string[]): FakePlugins {
  const all = new Map<string, readonly string[]>([
    ["bridge", most],
    ["host-local", most],
    ["portmap", most],
    ["bandwidth", most.slice(2)],
    ["firewall", ["0.4.0", "1.0.0"]],
  ]);
  for (const type of without) all.delete(type);
  return new FakePlugins(all);
}
