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
import { unicodeText } from "../../support/unicode-text.js";

const utf8 = new TextEncoder();
/** Of runs with random input. */
const repeats = process.env["DOCKERSHIM_TEST_LONG"] === "1" ? 50 : 1;
const decodeText = (text: string): ReturnType<typeof decodeCheckpoint> => decodeCheckpoint(utf8.encode(text));
const textOf = (checkpoint: PodSandboxCheckpoint): string =>
  new TextDecoder().decode(encodeCheckpoint(checkpoint));

function reasonOf(file: string | Uint8Array): string {
  const result = typeof file === "string" ? decodeText(file) : decodeCheckpoint(file);
  if (result.kind === "corrupt") return result.reason;
  return assert.fail(`accepted: ${String(file)}`);
}

/** A file with the right checksum, made of raw JSON for `data`, which must mean what `port_mappings` says. */
function signed(data: string, mappings?: Parameters<typeof rawOf>[0]["port_mappings"]): string {
  const raw = rawOf(mappings === undefined ? {} : { port_mappings: mappings });
  const file = formatFile(raw, checksum(raw, "dockershim"));
  return file.replace(/"data":.*,"checksum"/, `"data":${data},"checksum"`);
}

/** Files that no program writes, and the reason for which they are refused. */
const byHand = new Map([
  ["mapping with every pointer absent", /^port_mappings\[0\] /],
  ["null entry in the list", /^port_mappings\[0\] /],
  // It hashes an empty list, but does not show it.
  ["empty (non-nil) slice, only reachable by a hand-edited file", /checksum (3585831124|3930330829)/],
]);

describe("recorded files", () => {
  for (const vector of vectors) {
    for (const flavour of ["dockershim", "criDockerd"] as const) {
      const { file } = vector[flavour];
      const reason = byHand.get(vector.name);
      test(`${vector.name}, of ${flavour}, are ${reason === undefined ? "read and written again" : "refused"}`, () => {
        if (reason !== undefined) {
          assert.match(reasonOf(file), reason);
          return;
        }
        const result = decodeText(file);
        assert.ok(result.kind === "checkpoint");
        assert.equal(result.flavour, flavour);
        for (const target of ["dockershim", "criDockerd"] as const) {
          const again = new TextDecoder().decode(encodeCheckpoint(result.checkpoint, target));
          assert.equal(again, vector[target].file);
        }
      });
    }
  }

  for (const { name, flavour, file } of olderVectors) {
    if (flavour === "withoutHostIp" && !file.includes("port")) continue; // The same as today's.
    test(`of older kubelets are read where they make sense: ${name}, ${flavour}`, () => {
      const result = decodeText(file);
      if (/pointer|null|empty/.test(name)) assert.equal(result.kind, "corrupt");
      else assert.ok(result.kind === "checkpoint" && result.flavour === flavour);
    });
  }

  test("are read as the programs read them, those of the other program included", () => {
    for (const { content, result } of readCases) {
      const ours = result === "accepted" || content.includes("8080") ? "checkpoint" : "corrupt";
      assert.equal(decodeText(content).kind, ours, JSON.stringify(content));
    }
  });
});

test("what a checksum does not cover is not believed, and none is cut to 32 bits", () => {
  const mapping = { protocol: "tcp", container_port: 1, host_port: 2, host_ip: "10.0.0.1" };
  const withHostIp = rawOf({ port_mappings: [mapping] });
  const onHostNetwork = rawOf({ host_network: true });
  for (const [raw, flavour] of [
    [withHostIp, "withoutHostIp"],
    [withHostIp, "wholeFile"],
    [withHostIp, "wholeFileAdler32"],
    [onHostNetwork, "wholeFileWithoutHostNetwork"],
    [onHostNetwork, "wholeFileAdler32"],
  ] as const)
    assert.match(reasonOf(formatFile(raw, checksum(raw, flavour))), /checksum/, flavour);
  const right = checksum(onHostNetwork, "dockershim");
  assert.equal(decodeText(formatFile(onHostNetwork, right)).kind, "checkpoint");
  assert.match(reasonOf(formatFile(onHostNetwork, right + 2 ** 32)), /checksum/);
});

describe("encodeCheckpoint()", () => {
  const checkpoint = (data: PodSandboxCheckpoint["data"], name = "p"): PodSandboxCheckpoint => ({
    ...{ version: "v1", name, namespace: "n", data },
  });

  test("hashes an empty list as none", () =>
    assert.equal(textOf(checkpoint({ portMappings: [] })), textOf(checkpoint({}))));

  test("escapes as Go 1.15 did", () => {
    const name = '"\\\b\f\n\r\t\u0001\u007f<>&\u2028\u2029/é😀\\b\\fd800';
    const expected =
      '"\\"\\\\\\u0008\\u000c\\n\\r\\t\\u0001\u007f\\u003c\\u003e\\u0026\\u2028\\u2029/é😀\\\\b\\\\fd800"';
    assert.ok(textOf(checkpoint({}, name)).startsWith(`{"version":"v1","name":${expected},`));
  });

  test("writes half a surrogate pair as Go's replacement character, and can read it again", () => {
    const mapping = { protocol: "tcp", containerPort: 1, hostPort: 2, hostIp: "\ud800x" } as const;
    const text = textOf(checkpoint({ portMappings: [mapping] }));
    assert.ok(text.includes('"host_ip":"\\ufffdx"'));
    assert.equal(decodeText(text).kind, "checkpoint");
  });

  test("refuses ports that are no 32-bit integers, and what would be too large to be read again", () => {
    const refused = (value: PodSandboxCheckpoint): void =>
      assert.throws(
        () => encodeCheckpoint(value),
        (error) => isKind(error, "invalid"),
      );
    for (const hostPort of [1.5, NaN, Infinity, 2 ** 31, -(2 ** 31) - 1])
      refused(checkpoint({ portMappings: [{ protocol: "tcp", containerPort: 1, hostPort }] }));
    refused(checkpoint({}, "x".repeat(maximumFileBytes)));
  });
});

describe("decodeCheckpoint() names the reason", () => {
  const mapping = '{"protocol":"tcp","container_port":80,"host_port":8080}';
  const one = [{ protocol: "tcp", container_port: 80, host_port: 8080 }];
  const portOf = (text: string): string => signed(`{"port_mappings":[{"host_port":${text}}]}`, []);
  const cases: readonly (readonly [name: string, file: string | Uint8Array, reason: RegExp])[] = [
    ["an empty file", "", /^empty$/],
    ["a file of zeros", new Uint8Array(4096), /not JSON/],
    ["half a file", signed(`{"port_mappings":[${mapping}]}`, one).slice(0, 80), /not JSON/],
    ["text behind the value", `${signed("{}")}x`, /unexpected "x" after the value/],
    ["a byte order mark", `\ufeff${signed("{}")}`, /not JSON/],
    ["invalid UTF-8", Uint8Array.of(0x22, 0xff, 0x22), /not UTF-8/],
    ["null data", signed("null"), /data is null/],
    ["data of another type", signed("[]"), /data is array/],
    ["a mapping list of another type", signed('{"port_mappings":{}}'), /port_mappings is object/],
    ["a null mapping", signed(`{"port_mappings":[null,${mapping}]}`, [null, ...one]), /\[0\] is null/],
    ["a mapping without host port", signed('{"port_mappings":[{"protocol":"tcp"}]}', [{}]), /lacks/],
    ["a port as string", portOf('"80"'), /host_port is string/],
    ["a port with a fraction", portOf("80.0"), /host_port is not an integer/],
    ["a port with an exponent", portOf("8e1"), /host_port is not an integer/],
    ["a port of 33 bits", portOf("2147483648"), /host_port is not an integer/],
    ["a port of a million digits", portOf("9".repeat(1e6)), /host_port is not an integer/],
    ["a host network of another type", signed('{"host_network":"true"}'), /host_network is string/],
    ["a key twice", signed('{"port_mappings":[],"Port_Mappings":[]}', []), /port_mappings occurs twice/],
    ["a key twice in the same case", '{"checksum":1,"checksum":1}', /checksum occurs twice/],
    ["a negative checksum", '{"data":{},"checksum":-1}', /checksum is not an integer/],
    ["a checksum of 65 bits", '{"data":{},"checksum":18446744073709551616}', /checksum is not an integer/],
    ["a checksum as string", '{"data":{},"checksum":"815459779"}', /checksum is string/],
    ["deep nesting under a foreign key", `{"x":${"[".repeat(100_000)}`, /nested more than 32 levels deep/],
    ["a string that does not end", '{"name":"\\', /broken string/],
    ["a control character in a string", '{"name":"\n"}', /broken string/],
    ["a name of another type", '{"name":1}', /name is number/],
    ["a file too large", new Uint8Array(maximumFileBytes + 1), /larger/],
  ];
  for (const [name, file, reason] of cases) test(name, () => assert.match(reasonOf(file), reason));
});

describe("decodeCheckpoint() is as tolerant as Go where nothing can be misread", () => {
  const mapping = { protocol: "tcp", container_port: 80, host_port: 8080 };
  const unknown = JSON.stringify({ port_mappings: [{ ...mapping, protocol: "x" }] });
  const escaped = JSON.stringify({ port_mappings: [mapping] }).replace(
    "port_mappings",
    "port_m\\u0061ppings",
  );
  for (const [name, file, portMappings] of [
    ["blanks and another order of keys", '\n{ "checksum" : 815459779 , "data" : { } }\r\n'],
    ["foreign keys, also twice", signed('{"x":{"data":null},"x":1e999}')],
    ["no data", '{"checksum":815459779}'],
    ["nulls", '{"name":null,"data":{"port_mappings":null,"host_network":null},"checksum":815459779}'],
    ["an empty list under its own checksum", signed('{"port_mappings":[]}', [])],
    ["the long s and the kelvin sign", '{"data":{"ho\u017ft_networ\u212a":true},"checksum":996107268}'],
    ["escapes in keys", signed(escaped, [mapping])],
    [
      "an unknown protocol, read as TCP",
      signed(unknown, [{ ...mapping, protocol: "x" }]),
      [{ protocol: "tcp", containerPort: 80, hostPort: 8080 }],
    ],
  ] as const)
    test(name, () => {
      const result = decodeText(file);
      assert.ok(result.kind === "checkpoint");
      if (portMappings !== undefined) assert.deepEqual(result.checkpoint.data.portMappings, portMappings);
    });
});

describe("any checkpoint, any bytes", () => {
  const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  const text = unicodeText({ maxLength: 30 });
  const anyMapping = fc
    .tuple(fc.constantFrom("tcp", "udp", "sctp"), int32, int32, text)
    .map(([protocol, containerPort, hostPort, hostIp]) => {
      const mapping = { protocol, containerPort, hostPort };
      return hostIp === "" ? mapping : { ...mapping, hostIp };
    });
  const anyCheckpoint: fc.Arbitrary<PodSandboxCheckpoint> = fc
    .tuple(text, text, fc.array(anyMapping, { maxLength: 5 }), fc.boolean())
    .map(([name, namespace, portMappings, host]) => {
      const data = {
        ...(portMappings.length > 0 ? { portMappings } : {}),
        ...(host ? { hostNetwork: true as const } : {}),
      };
      return { version: "v1", name, namespace, data };
    });

  test("decodeCheckpoint() gives back what encodeCheckpoint() wrote", () =>
    fc.assert(
      fc.property(anyCheckpoint, (checkpoint) => {
        const expected = { kind: "checkpoint", checkpoint, flavour: "dockershim" };
        assert.deepEqual(decodeCheckpoint(encodeCheckpoint(checkpoint)), expected);
      }),
    ));

  test("decodeCheckpoint() never accepts changed data after bytes were changed, removed or doubled", () => {
    const bytesIn = fc.uint8Array({ maxLength: 20 });
    fc.assert(
      fc.property(anyCheckpoint, fc.nat(), fc.nat({ max: 20 }), bytesIn, (checkpoint, at, length, bytes) => {
        const file = encodeCheckpoint(checkpoint);
        const start = at % file.length;
        const mutated = Buffer.concat([file.subarray(0, start), bytes, file.subarray(start + length)]);
        const result = decodeCheckpoint(mutated);
        if (result.kind === "checkpoint") assert.deepEqual(result.checkpoint.data, checkpoint.data);
      }),
      { numRuns: 600 * repeats },
    );
  });

  test("decodeCheckpoint() answers for any bytes and any JSON", () => {
    const json = fc.json().map((one) => utf8.encode(one));
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), json), (bytes) =>
        assert.equal(decodeCheckpoint(bytes).kind, "corrupt"),
      ),
      { numRuns: 400 * repeats },
    );
  });
});
