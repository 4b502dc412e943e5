/** The programs with which the tests of pod networks work, beside those that come with the engine. */
import { findProgram, hasDebianPackages, hasNetworkPlugins, installAndRecord } from "./install.mjs";

/** What is looked for, and the distribution's package that has it. */
const wanted = [
  { is: () => findProgram("ip") !== undefined && findProgram("tc") !== undefined, name: "iproute2" },
  { is: () => findProgram("iptables") !== undefined, name: "iptables" },
  { is: () => findProgram("ebtables") !== undefined, name: "ebtables" },
  { is: () => findProgram("sysctl") !== undefined, name: "procps" },
  { is: () => findProgram("conntrack") !== undefined, name: "conntrack" },
  { is: hasNetworkPlugins, name: "containernetworking-plugins" },
];

/**
 * Installs what is missing; returns why something still is, undefined when nothing is. Tests that miss a program are
 * left out and say so themselves.
 * @param {{ allowSetup: boolean, stateDirectory: string, log: (line: string) => void }} options
 * @returns {Promise<string | undefined>}
 */
export async function ensureNetworkTools({ allowSetup, stateDirectory, log }) {
  const packages = wanted.filter(({ is }) => !is()).map(({ name }) => name);
  if (packages.length === 0) return undefined;
  const missing = `missing: ${packages.join(" ")}`;
  if (!allowSetup) return `${missing}; installing is forbidden (--no-setup)`;
  if (process.getuid?.() !== 0 || !hasDebianPackages()) return `${missing}; install them by hand`;
  try {
    log(`the tests of pod networks need ${packages.join(" ")}`);
    await installAndRecord({ packages, stateDirectory, log });
    return undefined;
  } catch (error) {
    return `${missing}; ${error instanceof Error ? error.message : String(error)}`;
  }
}
