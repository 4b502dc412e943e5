/** Hugepages that a cgroup has in use. */
import type { HugepageReading } from "../../domain/resource-reading.js";
import { type CgroupText, numberIn } from "./values.js";

/** One entry per page size; `namesIn` lists the files of a controller's directory. */
export function readHugepages(
  text: CgroupText,
  namesIn: (controller: string) => readonly string[],
): readonly HugepageReading[] {
  const v1 = namesIn("hugetlb");
  const [controller, names, file] =
    v1.length > 0 ? (["hugetlb", v1, "usage_in_bytes"] as const) : (["", namesIn(""), "current"] as const);
  return names.flatMap((name) => {
    const [, pageSize] = /^hugetlb\.(\d+[KMG]B)\.(?:usage_in_bytes|current)$/.exec(name) ?? [];
    if (pageSize === undefined) return [];
    const usage = numberIn(text(controller, `hugetlb.${pageSize}.${file}`));
    if (usage === undefined) return [];
    const highestUsage = numberIn(text(controller, `hugetlb.${pageSize}.max_usage_in_bytes`));
    return [{ pageSize, usage, highestUsage }];
  });
}
