/** `version` as the engine tells it: `6.18.5-1`. */
export function kernelAtLeast(version: string, major: number, minor: number): boolean {
  const match = /^(\d+)\.(\d+)/.exec(version);
  if (match === null) return false;
  const [actualMajor, actualMinor] = [Number(match[1]), Number(match[2])];
  return actualMajor > major || (actualMajor === major && actualMinor >= minor);
}
