/** A batch of any length as parts that the server takes. */
import { PunctualError } from "./errors.js";
import { encode } from "./json.js";
import type { BatchItem } from "./models.js";
import { needsKey, newTaskFields, type NewTask } from "./new-task.js";

const BATCH_MAX = 10_000;
/** A part of a batch is sent at this size, well below the server's limit. */
const PART_CHARS = 4 << 20;

/** A batch that stopped half-way. The cause says why. */
export class BatchError extends PunctualError {
  override readonly name = "BatchError";
  override readonly mayHaveHappened = true;

  constructor(
    /** The results of the first tasks, in order; those of the following ones are unknown, or they were not sent. */
    readonly done: readonly BatchItem[],
    cause: unknown,
  ) {
    super(`a batch stopped after ${done.length} tasks: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** A part: the tasks as JSON, and whether a repetition could double one of them. */
export interface Part {
  readonly tasks: string[];
  readonly isKeyed: boolean;
}

/** Parts below the limits of the server. */
export async function* parts(tasks: Iterable<NewTask> | AsyncIterable<NewTask>): AsyncGenerator<Part> {
  let part: string[] = [];
  let [size, isKeyed] = [0, false];
  for await (const task of tasks) {
    const item = encode(newTaskFields(task));
    if (part.length && (part.length === BATCH_MAX || size + item.length > PART_CHARS)) {
      yield { tasks: part, isKeyed };
      [part, size, isKeyed] = [[], 0, false];
    }
    part.push(item);
    size += item.length + 1;
    isKeyed ||= needsKey(task);
  }
  if (part.length) yield { tasks: part, isKeyed };
}
