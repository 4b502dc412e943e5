import assert from "node:assert/strict";
import { resolveConfig, type Config } from "../../src/shim/config/resolve.js";

/** The configuration of these flags, without environment and file. */
export async function configOf(flags: Readonly<Record<string, string>>): Promise<Config> {
  const given = Object.entries(flags).map(([name, text]) => ({ name, text }));
  const { config } = await resolveConfig(given, {}, () => assert.fail());
  return config;
}
