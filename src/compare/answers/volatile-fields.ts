/** Fields that two correct answers about one object may differ in. */

export interface VolatileField {
  /** The path in the answer; `[]` is an entry of a list or map, a leading `*` any beginning. */
  readonly field: string;
  /** With `ignored` it may also be absent on one side. */
  readonly compared: "by presence" | "ignored";
  readonly reason: string;
}

const measured = "measured at the time of each call";

export const volatileFields: readonly VolatileField[] = [
  { field: "*timestamp", compared: "by presence", reason: "the time of each call" },
  { field: "*cpu.usage_core_nano_seconds", compared: "by presence", reason: measured },
  { field: "*cpu.usage_nano_cores", compared: "ignored", reason: "absent until the second measurement" },
  ...["available", "rss", "usage", "working_set"].map(
    (name) => ({ field: `*memory.${name}_bytes`, compared: "by presence", reason: measured }) as const,
  ),
  { field: "*memory.page_faults", compared: "by presence", reason: measured },
  { field: "*memory.major_page_faults", compared: "by presence", reason: measured },
  { field: "*swap.swap_available_bytes", compared: "by presence", reason: measured },
  { field: "*swap.swap_usage_bytes", compared: "by presence", reason: measured },
  { field: "*.psi", compared: "by presence", reason: measured },
  ...["rx_bytes", "rx_errors", "tx_bytes", "tx_errors"].flatMap((name) =>
    ["default_interface", "interfaces[]"].map(
      (place) => ({ field: `*network.${place}.${name}`, compared: "by presence", reason: measured }) as const,
    ),
  ),
  ...["*writable_layer", "container_filesystems[].inodes_used"].map(
    (field) =>
      ({ field, compared: "ignored", reason: "absent until a first measurement has ended" }) as const,
  ),
  { field: "*process.process_count", compared: "by presence", reason: measured },
  { field: "*used_bytes", compared: "by presence", reason: "measured at another time" },
  { field: "*inodes_used", compared: "by presence", reason: "measured at another time" },
  { field: "*metrics[].value", compared: "by presence", reason: measured },
  { field: "info[]", compared: "by presence", reason: "text for people, in each runtime's own form" },
];

/** Whether `field`, such as `stats[].cpu.timestamp`, is what `pattern` describes. */
export function matchesField(pattern: string, field: string): boolean {
  return pattern.startsWith("*") ? field.endsWith(pattern.slice(1)) : field === pattern;
}
