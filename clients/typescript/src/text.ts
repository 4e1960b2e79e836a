/** Texts in a form that the server takes. */

const LONE_SURROGATES = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** At most so many characters, none of them half of a pair or zero. */
export function fitting(text: string, charsMax: number): string {
  return text.slice(0, charsMax).replace(LONE_SURROGATES, "\ufffd").replaceAll("\0", "\ufffd");
}
