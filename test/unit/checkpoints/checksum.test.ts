import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { checksum, flavours, hashedText, recogniseChecksum } from "../../../checkpoints/checksum.js";
import { formatFile, parseFile } from "../../../checkpoints/file-format.js";
import { olderVectors, rawOf, vectors } from "./golden.js";

describe("hashedText(), checksum() and formatFile() agree with the recorded files", () => {
  for (const vector of vectors) {
    const raw = rawOf(vector);
    for (const flavour of ["dockershim", "criDockerd"] as const) {
      test(`${vector.name}, as ${flavour}`, () => {
        assert.equal(hashedText(raw, flavour), vector[flavour].hashed);
        assert.equal(checksum(raw, flavour), vector[flavour].checksum);
        assert.equal(formatFile(raw, vector[flavour].checksum), vector[flavour].file);
      });
    }
    const older = vector.olderDockershimWithoutHostIP;
    if (older === undefined) continue;
    test(`${vector.name}, as kubelets without host IPs`, () => {
      assert.equal(hashedText(raw, "withoutHostIp"), older.hashed);
      assert.equal(checksum(raw, "withoutHostIp"), older.checksum);
    });
  }
});

describe("hashedText() and checksum() agree with what the structs of older kubelets give", () => {
  for (const vector of olderVectors) {
    test(`${vector.name}, as ${vector.flavour}`, () => {
      // The encoder left out the empty list that was hashed.
      const text =
        vector.name === "empty list" ? vector.file.replace("{}", '{"port_mappings":[]}') : vector.file;
      const { checkpoint } = parseFile(new TextEncoder().encode(text));
      assert.equal(hashedText(checkpoint, vector.flavour), vector.hashed);
      assert.equal(checksum(checkpoint, vector.flavour), vector.checksum);
    });
  }
});

describe("recogniseChecksum()", () => {
  const withHostIp = rawOf({
    podName: "p",
    namespace: "n",
    data: { port_mappings: [{ protocol: "tcp", container_port: 1, host_port: 2, host_ip: "10.0.0.1" }] },
  });
  const onHostNetwork = rawOf({ podName: "p", namespace: "n", data: { host_network: true } });

  test("finds every flavour of a checkpoint that all of them can hold", () => {
    const raw = rawOf({
      podName: "p",
      namespace: "n",
      data: { port_mappings: [{ protocol: "udp", container_port: 1, host_port: 2 }] },
    });
    assert.deepEqual(
      flavours.map((flavour) => recogniseChecksum(raw, BigInt(checksum(raw, flavour)))),
      flavours,
    );
  });

  test("does not let a host IP through under a checksum that does not cover it", () => {
    for (const flavour of ["withoutHostIp", "wholeFile", "wholeFileAdler32"] as const) {
      assert.equal(recogniseChecksum(withHostIp, BigInt(checksum(withHostIp, flavour))), undefined, flavour);
    }
  });

  test("does not let host network through under a checksum that does not cover it", () => {
    for (const flavour of ["wholeFileWithoutHostNetwork", "wholeFileAdler32"] as const) {
      assert.equal(
        recogniseChecksum(onHostNetwork, BigInt(checksum(onHostNetwork, flavour))),
        undefined,
        flavour,
      );
    }
  });

  test("does not truncate a checksum of more than 32 bits", () => {
    const right = BigInt(checksum(onHostNetwork, "dockershim"));
    assert.equal(recogniseChecksum(onHostNetwork, right), "dockershim");
    assert.equal(recogniseChecksum(onHostNetwork, right + 2n ** 32n), undefined);
  });
});
