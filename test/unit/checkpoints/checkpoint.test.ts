import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import {
  decodeCheckpoint,
  encodeCheckpoint,
  type PodSandboxCheckpoint,
} from "../../../checkpoints/checkpoint.js";
import { checksum } from "../../../checkpoints/checksum.js";
import { formatFile, maximumFileBytes } from "../../../checkpoints/file-format.js";
import { isKind } from "../../../src/lib/errors.js";
import { olderVectors, rawOf, readCases, vectors } from "./golden.js";

const utf8 = new TextEncoder();
const decodeText = (text: string): ReturnType<typeof decodeCheckpoint> => decodeCheckpoint(utf8.encode(text));

function reasonOf(file: string | Uint8Array): string {
  const result = typeof file === "string" ? decodeText(file) : decodeCheckpoint(file);
  if (result.kind === "corrupt") return result.reason;
  return assert.fail(`accepted: ${String(file)}`);
}

/** A file with the right checksum, made of raw JSON for `data`, which must mean what `port_mappings` says. */
function signed(data: string, mappings: Parameters<typeof rawOf>[0]["data"]["port_mappings"]): string {
  const raw = rawOf({
    podName: "p",
    namespace: "n",
    data: mappings === undefined ? {} : { port_mappings: mappings },
  });
  return formatFile(raw, checksum(raw, "dockershim")).replace(
    /"data":.*,"checksum"/,
    `"data":${data},"checksum"`,
  );
}

const minusNull = new Set(["mapping with every pointer absent", "null entry in the list"]);
const emptySlice = "empty (non-nil) slice, only reachable by a hand-edited file";

describe("recorded files", () => {
  for (const vector of vectors) {
    if (minusNull.has(vector.name)) {
      test(`decodeCheckpoint() refuses unusable mappings: ${vector.name}`, () => {
        assert.match(reasonOf(vector.dockershim.file), /^port_mappings\[0\] /);
        assert.match(reasonOf(vector.criDockerd.file), /^port_mappings\[0\] /);
      });
      continue;
    }
    if (vector.name === emptySlice) {
      test("decodeCheckpoint() refuses the file that hashes an empty list but does not show it", () => {
        assert.match(reasonOf(vector.dockershim.file), /checksum 3585831124/);
        assert.match(reasonOf(vector.criDockerd.file), /checksum 3930330829/);
      });
      continue;
    }
    for (const flavour of ["dockershim", "criDockerd"] as const) {
      test(`decodeCheckpoint() reads, and encodeCheckpoint() writes again: ${vector.name}, ${flavour}`, () => {
        const result = decodeText(vector[flavour].file);
        assert.ok(result.kind === "checkpoint");
        assert.equal(result.flavour, flavour);
        assert.equal(new TextDecoder().decode(encodeCheckpoint(result.checkpoint)), vector.dockershim.file);
      });
    }
  }

  for (const { name, flavour, file } of olderVectors) {
    if (flavour === "withoutHostIp" && !file.includes("port")) continue; // The same as today's.
    test(`decodeCheckpoint() reads files of older kubelets where they make sense: ${name}, ${flavour}`, () => {
      const result = decodeText(file);
      if (/pointer|null|empty/.test(name)) assert.equal(result.kind, "corrupt");
      else assert.ok(result.kind === "checkpoint" && result.flavour === flavour);
    });
  }

  for (const { content, result } of readCases) {
    test(`decodeCheckpoint() and ${JSON.stringify(content)}`, () => {
      // Files of both programs are accepted.
      const ours = result === "accepted" || content.includes("8080") ? "checkpoint" : "corrupt";
      assert.equal(decodeText(content).kind, ours);
    });
  }
});

describe("encodeCheckpoint()", () => {
  const checkpoint = (data: PodSandboxCheckpoint["data"], name = "p"): PodSandboxCheckpoint => ({
    version: "v1",
    name,
    namespace: "n",
    data,
  });
  const textOf = (value: PodSandboxCheckpoint): string => new TextDecoder().decode(encodeCheckpoint(value));

  test("hashes an empty list as none", () => {
    assert.equal(textOf(checkpoint({ portMappings: [] })), textOf(checkpoint({})));
  });

  test("escapes as Go 1.15 did", () => {
    const name = '"\\\b\f\n\r\t\u0001\u007f<>&\u2028\u2029/é😀\\b\\fd800';
    const expected =
      '"\\"\\\\\\u0008\\u000c\\n\\r\\t\\u0001\u007f\\u003c\\u003e\\u0026\\u2028\\u2029/é😀\\\\b\\\\fd800"';
    assert.ok(textOf(checkpoint({}, name)).startsWith(`{"version":"v1","name":${expected},`));
  });

  test("writes half a surrogate pair as Go's replacement character, and can read it again", () => {
    const text = textOf(
      checkpoint({ portMappings: [{ protocol: "tcp", containerPort: 1, hostPort: 2, hostIp: "\ud800x" }] }),
    );
    assert.ok(text.includes('"host_ip":"\\ufffdx"'));
    assert.equal(decodeText(text).kind, "checkpoint");
  });

  for (const port of [1.5, NaN, Infinity, 2 ** 31, -(2 ** 31) - 1]) {
    test(`refuses port ${port}`, () => {
      assert.throws(
        () =>
          encodeCheckpoint(
            checkpoint({ portMappings: [{ protocol: "tcp", containerPort: 1, hostPort: port }] }),
          ),
        (error) => isKind(error, "invalid"),
      );
    });
  }

  test("refuses what decodeCheckpoint() would find too large", () => {
    assert.throws(
      () => encodeCheckpoint(checkpoint({}, "x".repeat(maximumFileBytes))),
      (error) => isKind(error, "invalid"),
    );
  });
});

describe("decodeCheckpoint() names the reason", () => {
  const mapping = '{"protocol":"tcp","container_port":80,"host_port":8080}';
  const one = [{ protocol: "tcp", container_port: 80, host_port: 8080 }];
  const cases: readonly (readonly [name: string, file: string | Uint8Array, reason: RegExp])[] = [
    ["an empty file", "", /^empty$/],
    ["a file of zeros", new Uint8Array(4096), /not JSON/],
    ["half a file", signed(`{"port_mappings":[${mapping}]}`, one).slice(0, 80), /not JSON/],
    ["text behind the value", `${signed("{}", undefined)}x`, /unexpected "x" after the value/],
    ["a byte order mark", `\ufeff${signed("{}", undefined)}`, /not JSON/],
    ["invalid UTF-8", Uint8Array.of(0x22, 0xff, 0x22), /not UTF-8/],
    ["null data", signed("null", undefined), /data is null/],
    ["data of another type", signed("[]", undefined), /data is array/],
    ["a mapping list of another type", signed('{"port_mappings":{}}', undefined), /port_mappings is object/],
    [
      "a null mapping before another",
      signed(`{"port_mappings":[null,${mapping}]}`, [null, ...one]),
      /\[0\] is null/,
    ],
    [
      "a mapping without host port",
      signed('{"port_mappings":[{"protocol":"tcp","container_port":80}]}', [
        { protocol: "tcp", container_port: 80 },
      ]),
      /lacks/,
    ],
    ["a port as string", signed('{"port_mappings":[{"host_port":"80"}]}', []), /host_port is string/],
    [
      "a port with a fraction",
      signed('{"port_mappings":[{"host_port":80.0}]}', []),
      /host_port is not an integer/,
    ],
    [
      "a port with an exponent",
      signed('{"port_mappings":[{"host_port":8e1}]}', []),
      /host_port is not an integer/,
    ],
    [
      "a port of 33 bits",
      signed('{"port_mappings":[{"host_port":2147483648}]}', []),
      /host_port is not an integer/,
    ],
    [
      "a port of a million digits",
      signed(`{"port_mappings":[{"host_port":${"9".repeat(1e6)}}]}`, []),
      /host_port is not an integer/,
    ],
    [
      "a host network of another type",
      signed('{"host_network":"true"}', undefined),
      /host_network is string/,
    ],
    [
      "a key that occurs twice",
      signed('{"port_mappings":[],"Port_Mappings":[]}', []),
      /port_mappings occurs twice/,
    ],
    ["a key that occurs twice in the same case", '{"checksum":1,"checksum":1}', /checksum occurs twice/],
    ["a negative checksum", '{"data":{},"checksum":-1}', /checksum is not an integer/],
    ["a checksum of 65 bits", '{"data":{},"checksum":18446744073709551616}', /checksum is not an integer/],
    ["a checksum as string", '{"data":{},"checksum":"815459779"}', /checksum is string/],
    ["deep nesting under a foreign key", `{"x":${"[".repeat(100_000)}`, /nested more than 32 levels deep/],
    ["a string that does not end", '{"name":"\\', /broken string/],
    ["a control character in a string", '{"name":"\n"}', /broken string/],
    ["a name of another type", '{"name":1}', /name is number/],
    ["a file too large", new Uint8Array(maximumFileBytes + 1), /larger/],
  ];
  for (const [name, file, reason] of cases) {
    test(name, () => assert.match(reasonOf(file), reason));
  }
});

describe("decodeCheckpoint() is as tolerant as Go where nothing can be misread", () => {
  const mapping = { protocol: "tcp", container_port: 80, host_port: 8080 };
  const cases: readonly (readonly [name: string, file: string])[] = [
    ["blanks and another order of keys", '\n{ "checksum" : 815459779 , "data" : { } }\r\n'],
    ["foreign keys, also twice", signed('{"x":{"data":null},"x":1e999}', undefined)],
    ["no data", '{"checksum":815459779}'],
    [
      "nulls for strings and lists",
      '{"name":null,"data":{"port_mappings":null,"host_network":null},"checksum":815459779}',
    ],
    ["an empty list under its own checksum", signed('{"port_mappings":[]}', [])],
    [
      "keys with the long s and the kelvin sign",
      '{"data":{"ho\u017ft_networ\u212a":true},"checksum":996107268}',
    ],
    [
      "escapes in keys",
      signed('{"port_m\\u0061ppings":[{"protocol":"tcp","container_port":80,"host_port":8080}]}', [mapping]),
    ],
    [
      "an unknown protocol",
      signed('{"port_mappings":[{"protocol":"x","container_port":80,"host_port":8080}]}', [
        { ...mapping, protocol: "x" },
      ]),
    ],
  ];
  for (const [name, file] of cases) {
    test(name, () => assert.equal(decodeText(file).kind, "checkpoint"));
  }

  test("reads an unknown protocol as TCP", () => {
    const result = decodeText(cases.at(-1)?.[1] ?? "");
    assert.ok(result.kind === "checkpoint");
    assert.deepEqual(result.checkpoint.data.portMappings, [
      { protocol: "tcp", containerPort: 80, hostPort: 8080 },
    ]);
  });
});

describe("any checkpoint, any bytes", () => {
  const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  const text = fc.string({ unit: "binary", maxLength: 30 });
  const anyMapping = fc
    .record({
      protocol: fc.constantFrom("tcp", "udp", "sctp"),
      containerPort: int32,
      hostPort: int32,
      hostIp: text,
    })
    .map(({ hostIp, ...mapping }) => (hostIp === "" ? mapping : { ...mapping, hostIp }));
  const anyCheckpoint: fc.Arbitrary<PodSandboxCheckpoint> = fc
    .record({
      name: text,
      namespace: text,
      mappings: fc.array(anyMapping, { maxLength: 5 }),
      host: fc.boolean(),
    })
    .map(({ name, namespace, mappings, host }) => ({
      version: "v1",
      name,
      namespace,
      data: {
        ...(mappings.length > 0 ? { portMappings: mappings } : {}),
        ...(host ? { hostNetwork: true } : {}),
      },
    }));

  test("decodeCheckpoint() gives back what encodeCheckpoint() wrote", () => {
    fc.assert(
      fc.property(anyCheckpoint, (checkpoint) => {
        const expected = { kind: "checkpoint", checkpoint, flavour: "dockershim" };
        assert.deepEqual(decodeCheckpoint(encodeCheckpoint(checkpoint)), expected);
      }),
    );
  });

  test("decodeCheckpoint() never accepts changed data after bytes were changed, removed or doubled", () => {
    const anyMutation = fc.record({
      at: fc.nat(),
      length: fc.nat({ max: 20 }),
      bytes: fc.uint8Array({ maxLength: 20 }),
    });
    fc.assert(
      fc.property(anyCheckpoint, anyMutation, (checkpoint, { at, length, bytes }) => {
        const file = encodeCheckpoint(checkpoint);
        const start = at % file.length;
        const mutated = Buffer.concat([file.subarray(0, start), bytes, file.subarray(start + length)]);
        const result = decodeCheckpoint(mutated);
        if (result.kind === "checkpoint") assert.deepEqual(result.checkpoint.data, checkpoint.data);
      }),
      { numRuns: 3000 },
    );
  });

  test("decodeCheckpoint() answers for any bytes and any JSON", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array({ maxLength: 200 }),
          fc.json().map((json) => utf8.encode(json)),
        ),
        (bytes) => {
          assert.equal(decodeCheckpoint(bytes).kind, "corrupt");
        },
      ),
      { numRuns: 2000 },
    );
  });
});
