/**
 * The bytes of messages, by the descriptors of their types. They are the bytes that gRPC's own encoder makes
 * of strings that are well formed; but that converts a message to one of its own first and then makes an
 * object for each part of a field.
 */
import { ShimError } from "../../../lib/errors.js";
import type { FieldDescriptor, FindMessage, MessageDescriptor } from "./message-decoder.js";
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

/** Of the fields of a type, by its descriptor: types may be in each other, and in several answers. */
const writers = new WeakMap<MessageDescriptor, Write>();

/**
 * An encoder of messages in the shapes of domain/cri.ts. Fields that are there are written even with their
 * default value, in the order of their numbers, lists of numbers packed; what is null or undefined is left
 * out. A type is compiled when its first message comes. The encoder throws `internal` with the path of the
 * field for a value of another type than the field's.
 */
export function compileEncoder(
  descriptor: MessageDescriptor,
  findMessage: FindMessage,
): (message: object) => Buffer {
  const write = fieldsWriter(descriptor, findMessage);
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
function fieldsWriter(descriptor: MessageDescriptor, findMessage: FindMessage): Write {
  const known = writers.get(descriptor);
  if (known !== undefined) return known;
  let fields: readonly Field[] | undefined;
  const write: Write = (output, value) => {
    if (!isObject(value)) throw new WrongValue("is no message");
    fields ??= compileFields(descriptor, findMessage);
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

function compileFields(descriptor: MessageDescriptor, findMessage: FindMessage): readonly Field[] {
  return descriptor.field
    .toSorted((a, b) => a.number - b.number)
    .map((field) => {
      const entry = descriptor.nestedType.find(({ name }) => name === field.typeName);
      const write =
        entry?.options?.mapEntry === true
          ? mapWriter(field, entry, findMessage)
          : field.label === "LABEL_REPEATED"
            ? listWriter(field, findMessage)
            : keyedWriter(field, findMessage);
      return { name: field.name, write };
    });
}

function keyedWriter(field: FieldDescriptor, findMessage: FindMessage): Write {
  const { wire, write } = valueWriter(field, findMessage);
  const key = keyOf(field, wire);
  return (output, value) => {
    output.varint(key);
    write(output, value);
  };
}

function listWriter(field: FieldDescriptor, findMessage: FindMessage): Write {
  const { wire, write } = valueWriter(field, findMessage);
  const isPacked = wire !== lengthDelimited;
  const key = keyOf(field, lengthDelimited);
  return (output, values) => {
    if (!Array.isArray(values)) throw new WrongValue("is no list");
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
function mapWriter(field: FieldDescriptor, entry: MessageDescriptor, findMessage: FindMessage): Write {
  const [keyField, valueField] = entry.field;
  if (keyField?.type !== "TYPE_STRING" || valueField === undefined) throw unsupported(field);
  const { wire, write } = valueWriter(valueField, findMessage);
  const [key, keyKey, valueKey] = [
    keyOf(field, lengthDelimited),
    keyOf(keyField, lengthDelimited),
    keyOf(valueField, wire),
  ];
  return (output, map) => {
    if (!isObject(map)) throw new WrongValue("is no map");
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

function valueWriter(field: FieldDescriptor, findMessage: FindMessage): ValueWriter {
  if (field.type !== "TYPE_MESSAGE") {
    const scalar = scalarWriters[field.type];
    if (scalar === undefined) throw unsupported(field);
    return scalar;
  }
  const descriptor = findMessage(field.typeName);
  if (descriptor === undefined) throw unsupported(field);
  const writeFields = fieldsWriter(descriptor, findMessage);
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
