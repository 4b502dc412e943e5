/**
 * V8 spends memory for speed, which a program that mostly waits does not need. To be called before the program is
 * loaded, because that would already make the young generation grow. As flags of Node.js they would depend on how
 * the program is started, and the first has no effect there.
 */
import { setFlagsFromString } from "node:v8";

export function saveMemory(): void {
  // The young generation keeps its first size, 2 MiB. It would grow to 32 MiB during the start and stay so.
  setFlagsFromString("--semi-space-growth-factor=1");
  // The old generation is collected when it has doubled, not when it has grown fourfold. With 40 % a third less
  // memory is in use, but streaming takes half as long again.
  setFlagsFromString("--heap-growing-percent=100");
}
