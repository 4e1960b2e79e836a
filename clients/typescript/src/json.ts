/**
 * JSON as the wire has it. Integers that a `number` cannot hold are read as `bigint`, and a `bigint` is written as an
 * integer; bytes travel as base64. What JSON has no form for is an error, and is not dropped in silence.
 */
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";

/** An object of a document. */
export type JsonObject = { [field: string]: unknown };

/** Marks the text of a large integer until it is a number again. Random, so that no text of a caller begins with it. */
const MARK = `\u0001${randomBytes(16).toString("hex")}:`;
const MARKED = new RegExp(`"\\\\u0001${MARK.slice(1)}(-?\\d+)"`, "g");
/** A text, or a number: only what is outside of texts is a number. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const LONG_DIGITS = /\d{16}/;

/**
 * One JSON document.
 * @throws TypeError for what JSON has no form for: NaN, functions, maps, sets, bytes inside of a document, circles.
 */
export function encode(value: unknown): string {
  let hasLarge = false;
  const text = JSON.stringify(value, function (this: unknown, name: string, given: unknown): unknown {
    // A `toJSON` that the program gave to all integers must not make a text of them.
    const original = (this as JsonObject)[name];
    if (typeof original === "bigint") {
      hasLarge = true;
      return MARK + original.toString();
    }
    refuseUnwritable(original, name);
    return given;
  });
  if (text === undefined) throw new TypeError(`${typeof value} is not JSON`);
  return hasLarge ? text.replace(MARKED, "$1") : text;
}

function refuseUnwritable(value: unknown, name: string): void {
  const where = name === "" ? "" : ` (${name})`;
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${value} is not JSON${where}`);
  if (typeof value === "function" || typeof value === "symbol") {
    throw new TypeError(`a ${typeof value} is not JSON${where}`);
  }
  if (value instanceof Map || value instanceof Set || ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    throw new TypeError(`${value.constructor.name} is not JSON${where}`);
  }
}

/** The document in a text. */
export function decode(text: string): unknown {
  if (!LONG_DIGITS.test(text)) return JSON.parse(text);
  let hasLarge = false;
  const marked = text.replace(TOKENS, (token) => {
    if (!isLargeInteger(token)) return token;
    hasLarge = true;
    return JSON.stringify(MARK + token);
  });
  if (!hasLarge) return JSON.parse(text);
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
  );
}

function isLargeInteger(token: string): boolean {
  return token.length >= 16 && /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token));
}

/** The field that carries a payload or result: `NAME`, or `NAME_base64` for bytes; none for `undefined` and `null`. */
export function contentFields(name: string, value: unknown): JsonObject {
  if (value === undefined || value === null) return {};
  if (value instanceof ArrayBuffer) return contentFields(name, new Uint8Array(value));
  if (value instanceof Uint8Array) {
    return { [`${name}_base64`]: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64") };
  }
  return { [name]: value };
}

/** The other way round; bytes are a `Uint8Array`. */
export function contentOf(name: string, fields: JsonObject): unknown {
  const text = fields[`${name}_base64`];
  return typeof text === "string" ? new Uint8Array(Buffer.from(text, "base64")) : fields[name];
}

/** Without fields that are `undefined`: absent fields are left out. */
export function present(fields: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
