/** Checks that a payload fits its handler. Types are gone when a program runs, so that only a schema can know. */
import { Reject } from "./outcomes.js";

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

type Validated<P> = { readonly value: P; readonly issues?: undefined } | { readonly issues: readonly Issue[] };

/** What Zod, Valibot, ArkType and others have: https://standardschema.dev. */
export interface StandardSchema<P> {
  readonly "~standard": {
    readonly validate: (value: unknown) => Validated<P> | Promise<Validated<P>>;
  };
}

/** A schema of such a library, or a function that takes what came to the payload, and throws if it does not fit. */
export type Schema<P> = StandardSchema<P> | ((payload: unknown) => P);

/** The payload as the schema gives it. What does not fit is rejected, not retried: it will never fit. */
export async function fit<P>(schema: Schema<P> | undefined, payload: unknown): Promise<P> {
  if (schema === undefined) return payload as P;
  if (!("~standard" in schema)) {
    try {
      return schema(payload);
    } catch (error) {
      throw new Reject(`the payload does not fit: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  const validated = await schema["~standard"].validate(payload);
  if (validated.issues === undefined) return validated.value;
  throw new Reject(`the payload does not fit: ${validated.issues.map(inWords).join("; ")}`);
}

function inWords(issue: Issue): string {
  const path = (issue.path ?? []).map((part) => String(typeof part === "object" ? part.key : part));
  return path.length ? `${path.join(".")}: ${issue.message}` : issue.message;
}
