import { readFileSync } from "node:fs";

const sysAdmin = 1n << 21n;

/** False, or why tests that mount must be skipped. */
export function withoutMounts(): false | string {
  const [, effective = "0"] =
    /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8")) ?? [];
  return (BigInt(`0x${effective}`) & sysAdmin) === 0n ? "mounting needs root with CAP_SYS_ADMIN" : false;
}
