import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { staticProgramArchitecture } from "../../../scripts/setup/busybox.mjs";

/** The head of a 64-bit ELF file with these program headers. */
function elf({ machine, types }: { machine: number; types: number[] }): Buffer {
  const content = Buffer.alloc(64 + types.length * 56);
  content.write("\x7fELF\x02\x01\x01", "latin1");
  content.writeUInt16LE(machine, 18);
  content.writeBigUInt64LE(64n, 32);
  content.writeUInt16LE(56, 54);
  content.writeUInt16LE(types.length, 56);
  types.forEach((type, index) => content.writeUInt32LE(type, 64 + index * 56));
  return content;
}

describe("staticProgramArchitecture()", () => {
  const cases: [string, Buffer, string | undefined][] = [
    ["a static amd64 program", elf({ machine: 62, types: [1, 1] }), "amd64"],
    ["a static arm64 program", elf({ machine: 183, types: [1] }), "arm64"],
    ["a program that needs a loader", elf({ machine: 62, types: [1, 3] }), undefined],
    ["a program of another processor", elf({ machine: 243, types: [1] }), undefined],
    ["a program that is cut off", elf({ machine: 62, types: [1, 1] }).subarray(0, 120), undefined],
    ["a script", Buffer.from("#!/bin/sh\n".padEnd(100, "#")), undefined],
  ];
  for (const [name, content, expected] of cases)
    test(`gives ${expected} for ${name}`, () => assert.equal(staticProgramArchitecture(content), expected));
});
