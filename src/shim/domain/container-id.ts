/** Whether `text` is a full container id as Docker makes them. Nothing else may become part of a path. */
export function isContainerId(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text);
}
