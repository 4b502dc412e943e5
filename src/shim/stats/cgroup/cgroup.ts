/** One cgroup, in all hierarchies that the host has. */
import { readdirSync } from "node:fs";
import type { ReadingDetails, ResourceReading } from "../../../domain/resource-reading.js";
import { nowNanoseconds } from "../../../lib/time.js";
import { CpuRate } from "../cpu-rate.js";
import { KeptFiles, type DescriptorCache } from "../descriptor-cache.js";
import { readBlocks, readCpu, readHugepages, readMemory } from "./cpu-memory-io.js";
import { type CgroupText, numberIn, pressureIn } from "../text-scanner.js";

const kept = { keep: true };
const passing = { keep: false };

export class Cgroup {
  readonly #directories = new Map<string, KeptFiles>();
  readonly #names = new Map<string, readonly string[]>();
  readonly #rate: CpuRate;
  readonly #keptText: CgroupText = (controller, file) => this.#directories.get(controller)?.text(file, kept);
  // Metrics are read rarely, from three times as many files: those are not kept open in between.
  readonly #passingText: CgroupText = (controller, file) =>
    this.#directories.get(controller)?.text(file, passing);

  /**
   * `directories` by controller of version 1, and by the empty string for version 2. `startedAtMs` is when
   * its CPU time was 0, in milliseconds of `performance.now()`.
   */
  constructor(
    private readonly path: string,
    private readonly directories: ReadonlyMap<string, string>,
    files: DescriptorCache,
    startedAtMs: number,
  ) {
    this.#rate = new CpuRate(startedAtMs);
    const byPath = new Map<string, KeptFiles>();
    for (const [controller, directory] of directories) {
      const own = byPath.get(directory) ?? new KeptFiles(directory, files);
      byPath.set(directory, own);
      this.#directories.set(controller, own);
    }
  }

  /** Undefined when the cgroup is gone. `details` without processes, which are the caller's to look at. */
  read(options: { readonly details: boolean }, nowMs = performance.now()): ResourceReading | undefined {
    const text = this.#keptText;
    const details = options.details ? this.#passingText : undefined;
    const cpu = readCpu(text, details);
    const memory = readMemory(text, details);
    if (cpu === undefined && memory === undefined) return undefined;
    const reading: ResourceReading = {
      timestamp: nowNanoseconds(),
      cpu,
      nanoCores: cpu === undefined ? undefined : this.#rate.next(cpu.usageNanoseconds, nowMs),
      memory,
      ioPressure: pressureIn(text("", "io.pressure")),
      tasks: numberIn(text("pids", "pids.current") ?? text("", "pids.current")),
    };
    return details === undefined ? reading : { ...reading, details: this.#details(details) };
  }

  /** Nanoseconds of CPU time since it was made; undefined when the cgroup is gone. */
  cpuTime(): number | undefined {
    return readCpu(this.#keptText, undefined)?.usageNanoseconds;
  }

  /** Process ids in this program's PID namespace; those outside of it are left out. */
  processes(): readonly number[] {
    const controller = this.#directories.has("pids") ? "pids" : "";
    return (this.#passingText(controller, "cgroup.procs") ?? "")
      .split("\n")
      .map(Number)
      .filter((pid) => pid > 0);
  }

  close(): void {
    for (const files of this.#directories.values()) files.close();
  }

  #details(text: CgroupText): ReadingDetails {
    return {
      cgroupPath: this.path,
      tasksLimit: numberIn(text("pids", "pids.max") ?? text("", "pids.max")),
      hugepages: readHugepages(text, (controller) => this.#namesIn(controller)),
      blocks: readBlocks(text),
      processes: undefined,
    };
  }

  /** Which files there are depends on the kernel alone. */
  #namesIn(controller: string): readonly string[] {
    let names = this.#names.get(controller);
    if (names === undefined) {
      names = listDirectory(this.directories.get(controller));
      this.#names.set(controller, names);
    }
    return names;
  }
}

function listDirectory(directory: string | undefined): readonly string[] {
  if (directory === undefined) return [];
  try {
    return readdirSync(directory);
  } catch {
    return []; // The cgroup is gone; the next reading of its values says so.
  }
}
