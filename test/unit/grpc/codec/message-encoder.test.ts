import assert from "node:assert/strict";
import { isUtf8 } from "node:buffer";
import { describe, test } from "node:test";
import { loadSync, type MessageTypeDefinition, type ServiceDefinition } from "@grpc/proto-loader";
import fc from "fast-check";
import { ShimError } from "../../../../src/lib/errors.js";
import { cadvisorMessages } from "../../../../src/domain/cadvisor-descriptors.js";
import { criMessages } from "../../../../src/domain/cri-descriptors.js";
import { cadvisorApi } from "../../../../src/shim/grpc/codec/cadvisor-api.js";
import {
  DescriptorTable,
  type FieldDescriptor,
  type MessageDescriptor,
} from "../../../../src/shim/grpc/codec/descriptors.js";
import { compileEncoder } from "../../../../src/shim/grpc/codec/message-encoder.js";
import { api } from "../test-server.js";
import { unicodeText } from "../../../support/unicode-text.js";

type Type = MessageTypeDefinition<object, object>;

const load = (file: string) =>
  loadSync(new URL(`../../../../proto/${file}`, import.meta.url).pathname, {
    keepCase: true,
    longs: String,
    defaults: true,
    oneofs: true,
  });
/** For each message, of which there are more than a hundred. */
const numRuns = process.env["DOCKERSHIM_TEST_LONG"] === "1" ? 1000 : 10;
const types = load("runtime/v1/api.proto");
const table = new DescriptorTable(criMessages);

function encoderOf(name: string): (message: object) => Buffer {
  return compileEncoder(table.message(name));
}

/** What the encoder of gRPC says, and ours, in hexadecimal. */
function bothEncodings(name: string, message: object): { readonly theirs: string; readonly ours: string } {
  const theirs = Buffer.from((types[`runtime.v1.${name}`] as Type).serialize(message)).toString("hex");
  const ours = encoderOf(name)(message).toString("hex");
  return { theirs, ours };
}

function assertSame(name: string, message: object): void {
  const { theirs, ours } = bothEncodings(name, message);
  assert.equal(ours, theirs);
}

const services = ["RuntimeService", "ImageService"].flatMap((name) =>
  Object.values(types[`runtime.v1.${name}`] as ServiceDefinition),
);

function typeName(type: object): string {
  return (type as { readonly type: { readonly name: string } }).type.name;
}

/** Every message that is in an answer. */
function responseTypes(): ReadonlySet<string> {
  const found = new Set<string>();
  const add = ({ name, fields }: MessageDescriptor): void => {
    if (found.has(name)) return;
    found.add(name);
    for (const { kind, message } of fields) if (message !== undefined && kind !== "map") add(message);
  };
  for (const { responseType } of services) add(table.message(typeName(responseType)));
  return found;
}

/** Half of a surrogate pair is no character, and no UTF-8 could say it. */
function wellFormed(text: string): string {
  return text.replaceAll(/\p{Surrogate}/gu, "\ufffd");
}

/** Of all lengths around those where a string is written in another way. */
const anyUnits = fc.oneof(
  { weight: 5, arbitrary: fc.string({ maxLength: 60 }) },
  fc.string({ unit: "grapheme", maxLength: 60 }),
  unicodeText({ minLength: 30, maxLength: 200 }),
  fc
    .array(fc.integer({ min: 0xd700, max: 0xe0ff }), { maxLength: 45 })
    .map((units) => String.fromCharCode(...units)),
);
const text = anyUnits.map(wellFormed);

function wholeNumber(smallest: bigint, largest: bigint): fc.Arbitrary<string | number> {
  return fc.oneof(
    fc.bigInt(smallest, largest).map(String),
    fc.bigInt(-1000n < smallest ? smallest : -1000n, 1_000_000_000_000_000_000n).map(String),
    fc.integer({ min: smallest < 0n ? Number.MIN_SAFE_INTEGER : 0, max: Number.MAX_SAFE_INTEGER }),
  );
}

const scalars: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  string: text,
  bytes: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  bool: fc.boolean(),
  double: fc.double(),
  enum: fc.oneof(fc.integer({ min: 0, max: 5 }), fc.integer()),
  int32: fc.integer(),
  uint32: fc.nat(2 ** 32 - 1),
  int64: wholeNumber(-(2n ** 63n), 2n ** 63n - 1n),
  uint64: wholeNumber(0n, 2n ** 64n - 1n),
};

function anyMessage({ fields }: MessageDescriptor): fc.Arbitrary<object> {
  const contents = fields.map((field) => [field.name, fc.option(anyContent(field))]);
  return fc.record(Object.fromEntries(contents) as Record<string, fc.Arbitrary<unknown>>, {
    requiredKeys: [],
  });
}

function anyContent(field: FieldDescriptor): fc.Arbitrary<unknown> {
  if (field.kind === "map") {
    return fc.dictionary(text, anyValue(field.message!.fields[1]!), { maxKeys: 4 });
  }
  return field.kind === "list" ? fc.array(anyValue(field), { maxLength: 3 }) : anyValue(field);
}

function anyValue({ type, message }: FieldDescriptor): fc.Arbitrary<unknown> {
  return message === undefined ? scalars[type]! : anyMessage(message);
}

describe("decodeRequest() reads what the decoder of gRPC reads", () => {
  const cadvisor = load("cadvisor.proto")["dockershim.cadvisor.Containers"] as ServiceDefinition;
  const all = [
    ...services.map((theirs) => ({ theirs, messages: table, methods: api.methods })),
    ...Object.values(cadvisor).map((theirs) => ({
      theirs,
      messages: new DescriptorTable(cadvisorMessages),
      methods: cadvisorApi().methods,
    })),
  ];
  for (const { theirs, messages, methods } of all) {
    test(`any request of ${theirs.path}`, () => {
      const name = theirs.path.slice(theirs.path.lastIndexOf("/") + 1);
      const own = methods.find((method) => method.name === name);
      fc.assert(
        fc.property(anyMessage(messages.message(typeName(theirs.requestType))), (message) => {
          const bytes = Buffer.from(theirs.requestSerialize(message));
          assert.deepEqual(own?.decodeRequest(bytes), theirs.requestDeserialize(bytes));
        }),
        { numRuns },
      );
    });
  }
});

describe("compileEncoder() writes what the encoder of gRPC writes", () => {
  for (const name of responseTypes()) {
    test(`any ${name}`, () => {
      fc.assert(
        fc.property(anyMessage(table.message(name)), (message) => {
          assertSame(name, message);
        }),
        { numRuns },
      );
    });
  }

  test("default values, which are written where they are set", () => {
    const { theirs, ours } = bothEncodings("Container", { id: "", state: 0, created_at: "0", labels: {} });
    assert.equal(theirs, "0a00" + "3000" + "3800");
    assert.equal(ours, theirs);
    assertSame("StatusResponse", { status: { conditions: [{ type: "", status: false }] }, info: { "": "" } });
    assertSame("MemoryUsage", { timestamp: 0, usage_bytes: { value: "0" }, psi: { Full: { Avg10: 0 } } });
  });

  for (const value of [
    ...["0", "-0", "1", "127", "128", "-1", "999999999999999", "1000000000000000"],
    ...["4294967295", "4294967296", "-4294967296", "-999999999", "0000000000000000001"],
    ...[2n ** 53n, 2n ** 53n + 1n, -(2n ** 53n) - 1n, 2n ** 63n - 1n, 2n ** 63n, -(2n ** 63n)].map(String),
    // Taken modulo 2^64.
    ...["18446744073709551615", "18446744073709551616", "99999999999999999999", "-18446744073709551615"],
    ...[0, 1, 2 ** 31, 2 ** 32, Number.MAX_SAFE_INTEGER, 2 ** 53, 2 ** 60],
  ]) {
    test(`${typeof value} ${value} in 64 bits`, () => {
      assertSame("Int64Value", { value });
      assertSame("UInt64Value", { value });
    });
  }

  test("fractions, which are cut off", () => {
    for (const value of [1.5, -1.5, "1.5", "-1.5", "0.25"]) assertSame("Int64Value", { value });
    for (const exit_code of [1.5, -1.5]) assertSame("ContainerStatus", { exit_code });
    // What gRPC refuses or cuts off at the exponent.
    const encode = encoderOf("UInt64Value");
    assert.equal(encode({ value: "1e-7" }).toString("hex"), "0800");
    assert.equal(encode({ value: "1.5e+19" }).toString("hex"), "088080f0f6ec90ad95d001");
  });

  // The encoder of gRPC writes it as it is in a short string; clients refuse the whole answer for that.
  test("half of a surrogate pair as U+FFFD", () => {
    const encode = encoderOf("Container");
    fc.assert(
      fc.property(anyUnits, (id) => {
        assert.deepEqual(encode({ id }), encode({ id: wellFormed(id) }));
      }),
    );
    for (const unit of ["\ud800", "\udc00", "\udc00\ud800", "\ud800a"]) {
      assert.ok(isUtf8(encode({ id: unit })), JSON.stringify(unit));
    }
  });

  test("messages whose length takes more bytes", () => {
    for (const length of [127, 128, 129, 16_383, 16_384, 16_385, 2_097_151, 2_097_152]) {
      for (const overhead of [0, 1, 2, 3, 4, 5]) {
        const name = "n".repeat(length - overhead);
        assertSame("Container", { metadata: { name, attempt: 7 }, image: { image: "i" }, state: 1 });
        assertSame("ContainerStatusResponse", { info: { info: name }, status: { message: name } });
      }
    }
  });

  test("keys of maps that mean something to objects", () => {
    const labels = Object.fromEntries([
      ...["__proto__", "constructor", "b", "10", "9", ""].map((key) => [key, `value of ${key}`] as const),
    ]);
    assertSame("PodSandbox", { labels });
  });
});

test("an encoding stays as it is when the next one is made", () => {
  const encode = encoderOf("Container");
  const first = encode({ id: "first" });
  encode({ id: "other" });
  assert.equal(first.toString("latin1"), "\n\x05first");
});

test("types may be in themselves", () => {
  const nodes = new DescriptorTable({ Node: "next=1 message:Node,more=2 message:Node[]" });
  const encode = compileEncoder(nodes.message("Node"));
  const encoded = encode({ more: [{}, { next: {} }], next: { next: {} } });
  assert.equal(encoded.toString("hex"), "0a020a0012001202" + "0a00");
});

describe("compileEncoder() refuses a value of another type, by the path of its field", () => {
  const cases: readonly (readonly [name: string, message: object, expected: string])[] = [
    ["Container", { created_at: "soon" }, "created_at: is not a 64-bit number"],
    ["Container", { created_at: "" }, "created_at: is not a 64-bit number"],
    ["Container", { created_at: "-" }, "created_at: is not a 64-bit number"],
    ["Container", { created_at: "NaN" }, "created_at: is not a 64-bit number"],
    ["Container", { created_at: "1e+21" }, "created_at: is not a 64-bit number"],
    ["Container", { created_at: " 1" }, "created_at: is not a 64-bit number"],
    ["Container", { created_at: "1".repeat(21) }, "created_at: is not a 64-bit number"],
    ["Container", { created_at: "123456789012345678x" }, "created_at: is not a 64-bit number"],
    ["Container", { created_at: 2 ** 64 }, "created_at: is not a 64-bit number"],
    ["Container", { created_at: Infinity }, "created_at: is not a number"],
    ["Container", { created_at: {} }, "created_at: is not a number"],
    ["Container", { state: "CONTAINER_RUNNING" }, "state: is not a number"],
    ["Container", { id: 5 }, "id: is not a string"],
    ["Container", { id: {} }, "id: is not a string"],
    ["Container", { image: "busybox" }, "image: is not a message"],
    ["Container", { image: [] }, "image: is not a message"],
    ["Container", { metadata: { attempt: NaN } }, "metadata.attempt: is not a number"],
    ["Container", { labels: { app: 1 } }, "labels: is not a string"],
    ["Container", { labels: ["app"] }, "labels: is not a map"],
    ["ListContainersResponse", { containers: {} }, "containers: is not a list"],
    ["ListContainersResponse", { containers: [{}, null] }, "containers[1]: is not a message"],
    [
      "ListContainersResponse",
      { containers: [{}, { image: { annotations: { a: undefined } } }] },
      "containers[1].image.annotations: is not a string",
    ],
    ["LinuxContainerUser", { supplemental_groups: ["x"] }, "supplemental_groups[0]: is not a 64-bit number"],
    ["MemoryUsage", { psi: { Full: { Avg10: "1" } } }, "psi.Full.Avg10: is not a number"],
    ["ExecSyncResponse", { stdout: "text" }, "stdout: is not a byte array"],
    ["RuntimeStatus", { conditions: [{ status: 1 }] }, "conditions[0].status: is not a boolean"],
    ["Container", [], "the message: is not a message"],
  ];
  for (const [name, message, expected] of cases) {
    test(`${name}: ${expected}, ${JSON.stringify(message)}`, () => {
      const encode = encoderOf(name);
      assert.throws(
        () => encode(message),
        (error) =>
          error instanceof ShimError &&
          error.kind === "internal" &&
          error.message === `encode message: ${expected}`,
      );
      // What was begun is not in the next one.
      assert.equal(encode({}).length, 0);
    });
  }

  test("a type that the CRI does not have", () => {
    const encode = compileEncoder(new DescriptorTable({ Odd: "zigzag=1 sint32" }).message("Odd"));
    assert.throws(() => encode({}), /field zigzag is of the unexpected type sint32/);
  });
});
