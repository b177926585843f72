/**
 * The contract's types as values: to check what a host answers, field by field,
 * and to carry it to the bindgen build, in postcard's form. The order of fields
 * and cases is the engine's.
 */

/** What is wrong with a value, and where in it. */
export class Mismatch extends Error {
  constructor(
    readonly path: string,
    readonly expected: string,
    readonly found: unknown,
  ) {
    super(`${path || 'the value'} is ${describe(found)}, expected ${expected}`);
  }
}

function describe(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 40));
  return typeof value;
}

/** Bytes that grow. */
class Writer {
  private bytes = new Uint8Array(1024);
  private length = 0;

  private room(count: number): void {
    if (this.length + count <= this.bytes.length) return;
    const grown = new Uint8Array(Math.max(this.bytes.length * 2, this.length + count));
    grown.set(this.bytes);
    this.bytes = grown;
  }

  byte(value: number): void {
    this.room(1);
    this.bytes[this.length++] = value;
  }

  varint(value: number): void {
    while (value > 127) {
      this.byte((value & 127) | 128);
      value >>>= 7;
    }
    this.byte(value);
  }

  f64(value: number): void {
    this.room(8);
    new DataView(this.bytes.buffer).setFloat64(this.length, value, true);
    this.length += 8;
  }

  text(value: string): void {
    const utf8 = encoder.encode(value);
    this.varint(utf8.length);
    this.room(utf8.length);
    this.bytes.set(utf8, this.length);
    this.length += utf8.length;
  }

  done(): Uint8Array {
    return this.bytes.slice(0, this.length);
  }
}

/** Bytes that are read from the start. */
class Reader {
  private at = 0;
  constructor(private readonly bytes: Uint8Array) {}

  byte(): number {
    const value = this.bytes[this.at++];
    if (value === undefined) throw new RangeError('an answer of the engine ends early');
    return value;
  }

  varint(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.byte();
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return value;
    }
  }

  f64(): number {
    const view = new DataView(this.bytes.buffer, this.bytes.byteOffset);
    this.at += 8;
    return view.getFloat64(this.at - 8, true);
  }

  text(): string {
    const length = this.varint();
    this.at += length;
    return decoder.decode(this.bytes.subarray(this.at - length, this.at));
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** One type. */
export interface Schema<T> {
  /** Write a value, or only check it where there is no writer. */
  write(value: unknown, path: string, writer?: Writer): void;
  read(reader: Reader): T;
}

type Of<S> = S extends Schema<infer T> ? T : never;

/** Throws a {@link Mismatch} unless the value is of the type. */
export function check<T>(schema: Schema<T>, value: unknown): asserts value is T {
  schema.write(value, '');
}

/** Whether the value is of the type. */
export function isOf<T>(schema: Schema<T>, value: unknown): value is T {
  try {
    check(schema, value);
    return true;
  } catch {
    return false;
  }
}

/** A value's bytes. */
export function encode<T>(schema: Schema<T>, value: T): Uint8Array {
  const writer = new Writer();
  schema.write(value, '', writer);
  return writer.done();
}

/** The value that bytes stand for. */
export function decode<T>(schema: Schema<T>, bytes: Uint8Array): T {
  return schema.read(new Reader(bytes));
}

function field(path: string, name: string): string {
  return path ? `${path}.${name}` : name;
}

export const u32: Schema<number> = {
  write(value, path, writer) {
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > 0xffffffff) {
      throw new Mismatch(path, 'a whole number from 0 to 4294967295', value);
    }
    writer?.varint(value);
  },
  read: (reader) => reader.varint(),
};

export const f64: Schema<number> = {
  write(value, path, writer) {
    if (typeof value !== 'number') throw new Mismatch(path, 'a number', value);
    writer?.f64(value);
  },
  read: (reader) => reader.f64(),
};

export const bool: Schema<boolean> = {
  write(value, path, writer) {
    if (typeof value !== 'boolean') throw new Mismatch(path, 'true or false', value);
    writer?.byte(value ? 1 : 0);
  },
  read: (reader) => reader.byte() !== 0,
};

export const text: Schema<string> = {
  write(value, path, writer) {
    if (typeof value !== 'string') throw new Mismatch(path, 'a text', value);
    writer?.text(value);
  },
  read: (reader) => reader.text(),
};

export const nothing: Schema<undefined> = {
  write() {},
  read: () => undefined,
};

export function option<T>(inner: Schema<T>): Schema<T | undefined> {
  return {
    write(value, path, writer) {
      const absent = value === undefined || value === null;
      writer?.byte(absent ? 0 : 1);
      if (!absent) inner.write(value, path, writer);
    },
    read: (reader) => (reader.byte() === 0 ? undefined : inner.read(reader)),
  };
}

export function list<T>(inner: Schema<T>): Schema<T[]> {
  return {
    write(value, path, writer) {
      if (!Array.isArray(value)) throw new Mismatch(path, 'an array', value);
      writer?.varint(value.length);
      value.forEach((item, index) => inner.write(item, `${path}[${index}]`, writer));
    },
    read(reader) {
      return Array.from({ length: reader.varint() }, () => inner.read(reader));
    },
  };
}

export function record<F extends Record<string, Schema<any>>>(fields: F): Schema<{ [K in keyof F]: Of<F[K]> }> {
  const entries = Object.entries(fields);
  return {
    write(value, path, writer) {
      if (typeof value !== 'object' || value === null) throw new Mismatch(path, 'an object', value);
      for (const [name, schema] of entries) {
        schema.write((value as Record<string, unknown>)[name], field(path, name), writer);
      }
    },
    read(reader) {
      const value: Record<string, unknown> = {};
      for (const [name, schema] of entries) value[name] = schema.read(reader);
      return value as { [K in keyof F]: Of<F[K]> };
    },
  };
}

export function pair(first: Schema<number>, second: Schema<number>): Schema<[number, number]> {
  return {
    write(value, path, writer) {
      if (!Array.isArray(value)) throw new Mismatch(path, 'a pair', value);
      first.write(value[0], `${path}[0]`, writer);
      second.write(value[1], `${path}[1]`, writer);
    },
    read: (reader) => [first.read(reader), second.read(reader)],
  };
}

export function oneOf<T extends string>(...names: T[]): Schema<T> {
  return {
    write(value, path, writer) {
      const index = names.indexOf(value as T);
      if (index < 0) throw new Mismatch(path, `one of ${names.join(', ')}`, value);
      writer?.varint(index);
    },
    read: (reader) => names[reader.varint()] as T,
  };
}

/** Cases by tag; `null` for those that carry nothing. */
export function variant<T>(cases: Record<string, Schema<any> | null>): Schema<T> {
  const tags = Object.keys(cases);
  return {
    write(value, path, writer) {
      const tag = (value as { tag?: unknown } | null | undefined)?.tag;
      const index = tags.indexOf(tag as string);
      if (index < 0) throw new Mismatch(field(path, 'tag'), `one of ${tags.join(', ')}`, tag);
      writer?.varint(index);
      cases[tag as string]?.write((value as { val?: unknown }).val, field(path, 'val'), writer);
    },
    read(reader) {
      const tag = tags[reader.varint()] as string;
      const schema = cases[tag];
      return (schema ? { tag, val: schema.read(reader) } : { tag }) as T;
    },
  };
}

/** A WIT `result`, as {@link Outcome}. */
export function result<T, E>(ok: Schema<T>, err: Schema<E>) {
  return variant<{ tag: 'ok'; val: T } | { tag: 'err'; val: E }>({ ok, err });
}
