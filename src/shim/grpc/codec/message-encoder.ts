/**
 * The bytes that gRPC's own encoder makes of well formed strings; that one converts a message to one of its
 * own first, and makes an object for each part of a field.
 */
import { ShimError } from "../../../lib/errors.js";
import type { FieldDescriptor, MessageDescriptor } from "./descriptors.js";
import {
  lengthDelimited,
  scalarWriters,
  type ValueWriter,
  type Write,
  WrongValue,
} from "./scalar-writers.js";
import { WireOutput } from "./wire-output.js";

interface Field {
  readonly name: string;
  /** Writes the key, too. */
  readonly write: Write;
}

/** All messages: they are encoded one after the other. */
const output = new WireOutput();

/** Writers of the fields of a type, by its descriptor: types may be in each other, and in several answers. */
const writers = new WeakMap<MessageDescriptor, Write>();

/**
 * An encoder of messages in the shapes of domain/cri.ts. Fields that are there are written even with their
 * default value, in the order of their numbers, lists of numbers packed; what is null or undefined is left
 * out. A type is compiled when its first message comes. The encoder throws `internal` with the path of the
 * field for a value of another type than the field's.
 */
export function compileEncoder(descriptor: MessageDescriptor): (message: object) => Buffer {
  const write = fieldsWriter(descriptor);
  return (message) => {
    output.reset();
    try {
      write(output, message);
    } catch (error) {
      if (!(error instanceof WrongValue)) throw error;
      const place = error.path === "" ? "the message" : error.path;
      throw new ShimError("internal", `encode message: ${place}: ${error.message}`, { field: error.path });
    }
    return output.take();
  };
}

/** The fields of a message without its length. */
function fieldsWriter(descriptor: MessageDescriptor): Write {
  const known = writers.get(descriptor);
  if (known !== undefined) return known;
  let fields: readonly Field[] | undefined;
  const write: Write = (output, value) => {
    if (!isObject(value)) throw new WrongValue("is not a message");
    fields ??= compileFields(descriptor);
    let name = "";
    try {
      for (const field of fields) {
        const content = value[field.name];
        if (content === undefined || content === null) continue;
        name = field.name;
        field.write(output, content);
      }
    } catch (error) {
      throw within(name, error);
    }
  };
  writers.set(descriptor, write);
  return write;
}

function compileFields(descriptor: MessageDescriptor): readonly Field[] {
  return descriptor.fields
    .toSorted((a, b) => a.number - b.number)
    .map((field) => {
      const writer = { single: keyedWriter, list: listWriter, map: mapWriter }[field.kind];
      return { name: field.name, write: writer(field) };
    });
}

function keyedWriter(field: FieldDescriptor): Write {
  const { wire, write } = valueWriter(field);
  const key = keyOf(field, wire);
  return (output, value) => {
    output.varint(key);
    write(output, value);
  };
}

function listWriter(field: FieldDescriptor): Write {
  const { wire, write } = valueWriter(field);
  const isPacked = wire !== lengthDelimited;
  const key = keyOf(field, lengthDelimited);
  return (output, values) => {
    if (!Array.isArray(values)) throw new WrongValue("is not a list");
    if (values.length === 0) return;
    let index = 0;
    try {
      if (isPacked) {
        output.varint(key);
        const start = output.open();
        for (; index < values.length; index += 1) write(output, values[index]);
        output.close(start);
      } else {
        for (; index < values.length; index += 1) {
          output.varint(key);
          write(output, values[index]);
        }
      }
    } catch (error) {
      throw within(`[${index}]`, error);
    }
  };
}

/** Keys and values are written even when they are empty. */
function mapWriter(field: FieldDescriptor): Write {
  const [keyField, valueField] = field.message?.fields ?? [];
  if (keyField?.type !== "string" || valueField === undefined) throw unsupported(field);
  const { wire, write } = valueWriter(valueField);
  const [key, keyKey, valueKey] = [
    keyOf(field, lengthDelimited),
    keyOf(keyField, lengthDelimited),
    keyOf(valueField, wire),
  ];
  return (output, map) => {
    if (!isObject(map)) throw new WrongValue("is not a map");
    for (const name of Object.keys(map)) {
      output.varint(key);
      const start = output.open();
      output.varint(keyKey);
      output.text(name);
      output.varint(valueKey);
      write(output, map[name]);
      output.close(start);
    }
  };
}

function valueWriter(field: FieldDescriptor): ValueWriter {
  if (field.message === undefined) {
    const scalar = scalarWriters[field.type];
    if (scalar === undefined) throw unsupported(field);
    return scalar;
  }
  const writeFields = fieldsWriter(field.message);
  return {
    wire: lengthDelimited,
    write: (output, value) => {
      const start = output.open();
      writeFields(output, value);
      output.close(start);
    },
  };
}

function within(outer: string, error: unknown): unknown {
  if (!(error instanceof WrongValue)) return error;
  const { path, message } = error;
  return new WrongValue(message, path === "" || path.startsWith("[") ? outer + path : `${outer}.${path}`);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function keyOf({ number }: FieldDescriptor, wire: number): number {
  return number * 8 + wire;
}

function unsupported({ name, type }: FieldDescriptor): ShimError {
  return new ShimError("internal", `encode messages: field ${name} is of the unexpected type ${type}`);
}
